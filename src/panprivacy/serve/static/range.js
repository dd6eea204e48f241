// The time whose releases are shown: in charts, tables and saved files alike.

const DAY = 864e5; // milliseconds

const part = (id) => document.getElementById(id);

export class TimeRange {
  /** `changed` is called whenever another time is chosen. */
  constructor(changed) {
    for (const id of ["range", "from", "until"]) {
      part(id).addEventListener("change", () => {
        part("dates").hidden = part("range").value !== "dates";
        changed();
      });
    }
  }

  /** The first moment that is shown; null if there is none. */
  get from() {
    const chosen = part("range").value;
    if (chosen === "dates") return dayOf("from");
    return chosen === "all" ? null : new Date(Date.now() - Number(chosen) * DAY);
  }

  has(moment) {
    const [from, until] = [this.from, part("range").value === "dates" ? dayOf("until") : null];
    return (from === null || moment >= from) && (until === null || moment < until.getTime() + DAY);
  }
}

/** The beginning of a day that was chosen, here. */
function dayOf(id) {
  return part(id).value === "" ? null : new Date(`${part(id).value}T00:00`);
}
