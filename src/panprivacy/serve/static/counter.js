// One counter on the page: what it last published, its error, its budget, when it goes on, and its series.

import { drawBars, drawSeries } from "./charts.js";
import { gaugesOf } from "./gauge.js";
import { expectedError, familyWith, firstOf, namesOf, usersOf } from "./measures.js";
import { nextOf } from "./next.js";
import { momentOf, valueOf } from "./published.js";
import { fillTable } from "./table.js";
import { capital, clock, familyInWords, kindInWords, numberOf, short, valueInWords, whole, writerFor } from "./words.js";

const EVERYBODY = "everybody";
const EACH = "each group";
const MOST_LINES = 7; // as many as there are colours that all kinds of eyes tell apart

export class CounterCard {
  #parts = {};
  #standing = null;

  /** `published` has the releases; `actions` are what buttons do: spend and loadEarlier. */
  constructor(name, published, actions) {
    this.published = published;
    this.element = document.getElementById("counter").content.cloneNode(true).firstElementChild;
    for (const part of this.element.querySelectorAll("[data-of]")) this.#parts[part.dataset.of] = part;
    const title = this.#parts.title;
    this.element.id = `counter-${name}`;
    this.element.hidden = true;
    title.id = `title-${name}`;
    this.element.setAttribute("aria-labelledby", title.id);
    this.#parts["table-region"].setAttribute("aria-labelledby", title.id);
    for (const choice of ["value", "of"]) this.#parts[choice].addEventListener("change", () => this.draw());
    this.#parts.spend.addEventListener("click", () => actions.spend(this.#standing));
    this.#parts.earlier.addEventListener("click", () => actions.loadEarlier(this));
    this.#parts.table.addEventListener("toggle", () => this.#fillTable());
  }

  get title() {
    return this.#standing.title;
  }

  get retired() {
    return this.#standing.retired;
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

  /** What a release that was pushed says about the standing. */
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

  /** The last estimate in a few words; nothing before the first. */
  get brief() {
    const last = this.published.last && this.#shownOf(this.published.last)[0];
    return last ? writerFor(last.unit, errorOf(last))(last.value) : "";
  }

  /** Write the figures and draw the charts of what is chosen. */
  draw() {
    const last = this.published.last;
    for (const part of ["series-figure", "table"]) this.#parts[part].hidden = last === null;
    if (last === null) {
      this.#sayNothingYet();
      return;
    }
    this.#offerChoices(last);
    this.#sayLast(last);
    this.#drawSeries();
    this.#drawBars(last);
    this.#fillTable();
  }

  get #name() {
    return this.#parts.value.value;
  }

  get #of() {
    return this.#parts.of.value;
  }

  /** The chosen values of a release, each with its group; the largest first if they are of each group. */
  #shownOf(record) {
    const groups = this.#of === EACH ? record.groups.map((each) => String(each.group)) : [this.#group];
    return groups.map((group) => ({ group, ...valueOf(record, this.#name, group) }))
      .filter((value) => value.name !== undefined).sort((a, b) => b.value - a.value);
  }

  /** The chosen group; null for everybody. */
  get #group() {
    return this.#of === EVERYBODY ? null : this.#of.replace(/^in /, "");
  }

  #offerChoices(last) {
    const names = namesOf(last);
    offer(this.#parts.value, names, firstOf(this.#standing.kind, names), valueInWords);
    const groups = last.groups.map((each) => `in ${each.group}`);
    const all = last.values.length ? [EVERYBODY] : [];
    const each = groups.length > 1 && groups.length <= MOST_LINES ? [EACH] : [];
    offer(this.#parts.of, [...all, ...each, ...groups], (all[0] ?? each[0] ?? groups[0]), (text) => text);
    this.#parts["value-choice"].hidden = names.length < 2;
    this.#parts["of-choice"].hidden = groups.length === 0;
  }

  #sayNothingYet() {
    const { error } = this.#standing;
    const [key, expected] = Object.entries(error).find(([, number]) => number !== null) ?? [];
    this.#write({
      "estimate-name": "Last release", estimate: "None yet", interval: "It will be shown here when it is made.", also: "",
      error: expected === undefined ? "–" : `± ${writerFor(key.startsWith("mean") ? "" : "share", expected)(expected)}`,
      "error-kind": key?.includes("relative") ? "of the count, to be expected" : "to be expected (standard error)",
      expected: "",
    });
    for (const choice of ["value-choice", "of-choice"]) this.#parts[choice].hidden = true;
  }

  #sayLast(last) {
    const [value] = this.#shownOf(last);
    if (value === undefined) return;
    const { unit, low, high, group } = value;
    const write = writerFor(unit, errorOf(value));
    const expected = group === null ? expectedError(this.#standing.error, value.name) : null;
    const where = this.#of === EACH ? `, ${group} (the largest)` : group === null ? "" : `, ${group}`;
    this.#write({
      "estimate-name": `${capital(valueInWords(value.name))}${where}`,
      estimate: write(value.value),
      interval: low === null ? "" : `${write(low)} to ${write(high)} (${short(last.level * 100)} % interval)`,
      also: this.#inUsers(last, value),
      error: `± ${write(errorOf(value))}`,
      "error-kind": value.stderr === null ? "half of the interval" : "standard error",
      expected: expected === null ? "" : `about ± ${write(expected)} was expected`,
    });
  }

  #inUsers(last, { name, group }) {
    const values = group === null ? last.values : last.groups.find((each) => String(each.group) === group).values;
    const users = usersOf(values, name);
    return users === null ? "" : `about ${writerFor("users", errorOf(users))(users.value)} users`;
  }

  #write(texts) {
    for (const [part, text] of Object.entries(texts)) {
      this.#parts[part].textContent = text;
      this.#parts[part].hidden = text === "";
    }
  }

  #drawSeries() {
    const { records } = this.published;
    const groups = this.#of === EACH ? records.at(-1).groups.map((each) => String(each.group)) : [this.#group];
    const [{ unit, ...last }] = this.#shownOf(records.at(-1));
    const write = writerFor(unit, errorOf(last));
    const lines = groups.map((group) => ({
      name: group ?? EVERYBODY,
      points: records.map((record) => ({ moment: momentOf(record), ...valueOf(record, this.#name, group) }))
        .filter((point) => point.value !== undefined),
    }));
    const level = short(records.at(-1).level * 100);
    const said = `${capital(valueInWords(this.#name))}${this.#of === EVERYBODY ? "" : `, ${this.#of}`}`;
    const number = lines[0].points.length;
    const caption = `${said}, ${numberOf(number, "releases")}, with ${level} % intervals`;
    this.#parts["series-caption"].textContent = caption;
    const words = `${caption}. The last, of ${clock(momentOf(records.at(-1)))}: ${write(last.value)}. The table below has them all.`;
    this.#parts.series.setAttribute("aria-label", words);
    drawSeries(this.#parts.series, lines, unit, write);
  }

  #drawBars(last) {
    const found = last.groups.length ? this.#barsOfGroups(last) : this.#barsOfFamily(last);
    this.#parts["bars-figure"].hidden = found === null;
    this.element.classList.toggle("with-bars", found !== null);
    if (found === null) return;
    const { caption, bars } = found;
    const write = writerFor(bars[0].unit, Math.max(...bars.map(errorOf)));
    this.#parts["bars-caption"].textContent = caption;
    const said = bars.map(({ label, value, low, high }) => `${label}: ${write(value)} (${write(low)} to ${write(high)})`);
    this.#parts.bars.setAttribute("aria-label", `${caption}. ${said.join("; ")}.`);
    drawBars(this.#parts.bars, bars, bars[0].unit, write, this.#of === EACH);
  }

  #barsOfGroups(last) {
    const bars = last.groups.map(({ group }) => ({ label: group, ...valueOf(last, this.#name, String(group)) }))
      .filter((bar) => bar.value !== undefined);
    return bars.length ? { caption: `${capital(valueInWords(this.#name))} by group, last release`, bars } : null;
  }

  #barsOfFamily(last) {
    const found = familyWith(last, this.#name);
    if (found === null) return null;
    return { caption: `${capital(familyInWords(found.family))}, last release`, bars: found.bars };
  }

  #fillTable() {
    const { earlier, rows, table } = this.#parts;
    if (!table.open) return; // many rows, which nobody sees
    const { records } = this.published;
    fillTable(rows, records, (record) => this.#shownOf(record), this.#of === EACH);
    earlier.hidden = this.published.earlier === 0;
    earlier.textContent = `Load ${whole(this.published.earlier)} earlier ones`;
  }
}

/** The standard error of a value; half of its interval where it has none. */
export function errorOf({ stderr, low, high }) {
  return stderr ?? (low === null || low === undefined ? null : (high - low) / 2);
}

/** Fill a choice, and keep what was chosen if it is still there. */
function offer(select, options, first, words) {
  const known = [...select.options].map((option) => option.value);
  if (known.join("\n") === options.join("\n")) return;
  const kept = options.includes(select.value) ? select.value : first;
  select.replaceChildren(...options.map((value) => new Option(words(value), value)));
  select.value = kept;
}
