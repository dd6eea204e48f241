// One counter on the page: what it last published, its error, its budget, when it goes on, and its series.

import { Choice } from "./choice.js";
import { showBars, showSeries } from "./figures.js";
import { gaugesOf } from "./gauge.js";
import { expectedError, usersOf } from "./measures.js";
import { nextOf } from "./next.js";
import { errorOf } from "./published.js";
import { fillTable } from "./table.js";
import { capital, kindInWords, short, valueInWords, whole, writerFor } from "./words.js";

export class CounterCard {
  #parts = {};
  #choice;
  #standing = null;

  /** `published` has the releases; `actions` are what buttons do: spend and loadEarlier. */
  constructor(name, published, actions) {
    this.published = published;
    this.element = document.getElementById("counter").content.cloneNode(true).firstElementChild;
    for (const part of this.element.querySelectorAll("[data-of]")) this.#parts[part.dataset.of] = part;
    const { title, spend, earlier, table } = this.#parts;
    this.element.id = `counter-${name}`;
    this.element.hidden = true;
    title.id = `title-${name}`;
    this.element.setAttribute("aria-labelledby", title.id);
    this.#parts["table-region"].setAttribute("aria-labelledby", title.id);
    this.#choice = new Choice(this.#parts, () => this.draw());
    spend.addEventListener("click", () => actions.spend(this.#standing));
    earlier.addEventListener("click", () => actions.loadEarlier(this));
    table.addEventListener("toggle", () => this.#fillTable());
  }

  get title() {
    return this.#standing.title;
  }

  /** The last estimate in a few words; nothing before the first. */
  get brief() {
    const last = this.published.last && this.#choice.shownOf(this.published.last)[0];
    return last ? writerFor(last.unit, errorOf(last))(last.value) : "";
  }

  /** Show another standing, and what is published by now. */
  show(standing, may) {
    this.#standing = standing;
    this.element.hidden = false; // before anything is drawn: Plotly measures the place it has
    const { title, about, gauges, spend } = this.#parts;
    const { budget, kind, universe } = standing;
    title.textContent = standing.title;
    about.textContent = [
      standing.name, kindInWords(kind), universe === null ? null : `${whole(universe)} users`,
      `ε ${short(budget.epsilon)}`, budget.delta ? `δ ${budget.delta}` : null,
    ].filter(Boolean).join(" · ");
    gauges.replaceChildren(...gaugesOf(budget));
    const live = !standing.retired && budget.releases_left !== 0 && kind !== "actives";
    spend.hidden = !(live && (may.includes("release") || may.includes("admin")));
    this.tick();
    this.draw();
  }

  /** Show what a release that was pushed says. */
  hear({ next, budget, release }, may) {
    this.show({ ...this.#standing, next, budget, last: release }, may);
  }

  /** Show how long it is until the next release. */
  tick() {
    if (this.#standing === null) return;
    const { large, small } = nextOf(this.#standing);
    this.#parts.countdown.textContent = large;
    this.#parts.next.textContent = small;
  }

  /** Write the figures and draw the charts of what is chosen. */
  draw() {
    const { last, records } = this.published;
    for (const part of ["series-figure", "table"]) this.#parts[part].hidden = last === null;
    if (last === null) {
      this.#choice.hide();
      this.#sayNothingYet();
      return;
    }
    this.#choice.offer(this.#standing.kind, last);
    this.#sayLast(last);
    showSeries(this.#parts, records, this.#choice);
    this.element.classList.toggle("with-bars", showBars(this.#parts, last, this.#choice));
    this.#fillTable();
  }

  #sayNothingYet() {
    const [key, expected] = Object.entries(this.#standing.error).find(([, number]) => number !== null) ?? [];
    const unit = key?.startsWith("mean") ? "appearances" : "share";
    this.#write({
      "estimate-name": "Last release",
      estimate: "None yet",
      interval: "It will be shown here when it is made.",
      also: "",
      error: expected === undefined ? "–" : `± ${writerFor(unit, expected)(expected)}`,
      "error-kind": key?.includes("relative") ? "of the count, to be expected" : "to be expected (standard error)",
      expected: "",
      noisy: "",
    });
  }

  #sayLast(last) {
    const [value] = this.#choice.shownOf(last);
    const { name, group, unit, low, high } = value;
    const write = writerFor(unit, errorOf(value));
    const expected = group === null ? expectedError(this.#standing.error, name) : null;
    const where = group === null ? "" : `, ${group}${this.#choice.each ? " (the largest)" : ""}`;
    this.#write({
      "estimate-name": `${capital(valueInWords(name))}${where}`,
      estimate: write(value.value),
      interval: low === null ? "" : `${write(low)} to ${write(high)} (${short(last.level * 100)} % interval)`,
      also: inUsers(last, value),
      error: `± ${write(errorOf(value))}`,
      "error-kind": value.stderr === null ? "half of the interval" : "standard error",
      expected: expected === null ? "" : `about ± ${write(expected)} was expected`,
      noisy: last.mostly_noise ? "This answer is mostly noise." : "",
    });
  }

  #write(texts) {
    for (const [part, text] of Object.entries(texts)) {
      this.#parts[part].textContent = text;
      this.#parts[part].hidden = text === "";
    }
  }

  #fillTable() {
    const { earlier, rows, table } = this.#parts;
    if (!table.open) return; // many rows that are not visible
    fillTable(rows, this.published.records, this.#choice);
    earlier.hidden = this.published.earlier === 0;
    earlier.textContent = `Load ${whole(this.published.earlier)} earlier ones`;
  }
}

/** A share as a number of users; nothing where it is not known. */
function inUsers(last, { name, group }) {
  const values = group === null ? last.values : last.groups.find((each) => String(each.group) === group).values;
  const users = usersOf(values, name);
  return users === null ? "" : `about ${writerFor("users", errorOf(users))(users.value)} users`;
}
