// One counter on the page: a line of the overview, and below it, when it is open, its figures, charts and table.

import { pictureOf } from "./charts.js";
import { Choice } from "./choice.js";
import { showBars, showSeries } from "./figures.js";
import { gaugesOf, stateInWords } from "./gauge.js";
import { expectedError, usersOf } from "./measures.js";
import { errorInWords, errorOf, intervalInWords, short, whole, writerFor } from "./numbers.js";
import { momentOf } from "./published.js";
import { csvOf, save } from "./save.js";
import { flagsOf, nextOf } from "./standing.js";
import { fillTable } from "./table.js";
import { capital, dated, kindInWords, valueInWords } from "./words.js";

export class CounterCard {
  #parts = {};
  #choice;
  #range;
  #allBars = false;

  /** What the service says of the counter; null before it has said anything. */
  standing = null;

  /** `published` has the releases, `range` says which are shown; `actions` are what buttons do. */
  constructor(published, range, actions) {
    this.published = published;
    this.#range = range;
    this.element = document.getElementById("counter").content.cloneNode(true).firstElementChild;
    for (const part of this.element.querySelectorAll("[data-of]")) this.#parts[part.dataset.of] = part;
    const { name } = published;
    const { title, body, head, spend, earlier, table, csv } = this.#parts;
    [this.element.id, title.id, body.id] = [`counter-${name}`, `title-${name}`, `body-${name}`];
    this.element.setAttribute("aria-labelledby", title.id);
    head.setAttribute("aria-controls", body.id);
    this.#choice = new Choice(this.#parts, () => this.draw());
    head.addEventListener("click", () => actions.open(this, !this.isOpen));
    spend.addEventListener("click", () => actions.spend(this.standing));
    earlier.addEventListener("click", () => this.published.loadEarlier().then(() => this.draw()));
    table.addEventListener("toggle", () => this.#fillTable());
    csv.addEventListener("click", () => save(`${name}.csv`, csvOf(name, this.#records, this.#choice), "text/csv"));
    for (const chart of ["series", "bars"]) this.#parts[`${chart}-png`].addEventListener("click", () => this.#savePicture(chart));
    this.#parts["all-bars"].addEventListener("click", () => {
      this.#allBars = !this.#allBars;
      this.draw();
    });
  }

  get title() {
    return this.standing.title;
  }

  get flags() {
    return flagsOf(this.standing);
  }

  get isOpen() {
    return !this.#parts.body.hidden;
  }

  /** What a search looks at, in small letters. */
  get searchable() {
    const { name, title, kind } = this.standing;
    return [name, title, kindInWords(kind), ...this.flags.map((flag) => flag.words)].join(" ").toLowerCase();
  }

  /** The last estimate in a few words; nothing before the first. */
  get brief() {
    const main = this.standing.last && this.#choice.mainOf(this.standing.last);
    return main ? writerFor(main.unit, errorOf(main))(main.value) : "";
  }

  /** The releases that are loaded, and of the time that is shown. */
  get #records() {
    return this.published.records.filter((record) => this.#range.has(momentOf(record)));
  }

  /** Show another standing. */
  show(standing, may) {
    this.standing = standing;
    const { title, about, gauges, spend } = this.#parts;
    const { budget, kind, universe, last } = standing;
    title.textContent = standing.title;
    about.textContent = [
      standing.name, kindInWords(kind), universe === null ? null : `${whole(universe)} users`,
      `epsilon ${short(budget.epsilon)}`, budget.delta ? `delta ${budget.delta}` : null,
    ].filter(Boolean).join(" · ");
    gauges.replaceChildren(...gaugesOf(budget));
    this.#parts.state.textContent = stateInWords(budget);
    const live = !standing.retired && budget.releases_left !== 0 && kind !== "actives";
    spend.hidden = !(live && (may.includes("release") || may.includes("admin")));
    if (last === null) this.#choice.hide();
    else this.#choice.offer(kind, last);
    this.#nameControls();
    this.#sayInBrief();
    this.tick();
  }

  /** Open or close it. What it published is loaded when it is opened. */
  async setOpen(open) {
    this.#parts.body.hidden = !open;
    this.#parts.head.setAttribute("aria-expanded", open);
    this.element.classList.toggle("open", open);
    if (open) await this.refresh();
  }

  /** Load what it published, as far as it is shown, and draw it. */
  async refresh() {
    if (!this.isOpen) return;
    await this.published.catchUp(this.standing.last);
    const [first] = this.published.records;
    const { from } = this.#range;
    if (this.published.earlier && from !== null && from < momentOf(first)) await this.published.loadEarlier();
    this.draw();
  }

  /** Show how long it is until the next release. */
  tick() {
    const { large, small } = nextOf(this.standing);
    for (const part of ["countdown", "brief-next"]) this.#parts[part].textContent = large;
    this.#parts.next.textContent = small;
  }

  /** Write the figures and draw the charts of what is chosen. */
  draw() {
    this.#sayInBrief();
    if (!this.isOpen) return;
    const { last } = this.standing;
    const records = this.#records;
    for (const part of ["series-figure", "table"]) this.#parts[part].hidden = records.length === 0;
    this.#parts.csv.hidden = records.length === 0;
    this.#parts["no-records"].hidden = last === null || records.length > 0;
    if (last === null) this.#sayNothingYet();
    else this.#sayLast(last);
    if (records.length === 0) {
      this.#parts["bars-figure"].hidden = true;
      return;
    }
    this.#drawn("series", showSeries(this.#parts, records, this.#choice, this.published.earlier));
    const bars = showBars(this.#parts, records.at(-1), this.#choice, this.#allBars);
    this.element.classList.toggle("with-bars", bars !== null);
    this.#drawn("bars", bars);
    this.#fillTable();
  }

  async #drawn(chart, drawing) {
    this.#parts[`${chart}-png`].hidden = !(await drawing);
  }

  #sayInBrief() {
    const { brief, flags } = this.#parts;
    const { last } = this.standing;
    const main = last && this.#choice.mainOf(last);
    brief.textContent = this.brief;
    this.#parts["brief-name"].textContent = main ? [valueInWords(main.name), main.group].filter(Boolean).join(", ") : "";
    this.#parts["brief-error"].textContent = main ? errorInWords(main.unit, errorOf(main)) : "";
    flags.replaceChildren(...this.flags.map(({ words, warns }) => {
      const flag = document.createElement("li");
      flag.textContent = words;
      flag.classList.toggle("warns", Boolean(warns));
      return flag;
    }));
    this.element.classList.toggle("is-noise", Boolean(main?.noisy));
  }

  #sayNothingYet() {
    const [key, expected] = Object.entries(this.standing.error).find(([, number]) => number !== null) ?? [];
    const unit = key?.startsWith("mean") ? "appearances" : "share";
    this.#write({
      "estimate-name": "Last release",
      estimate: "None yet",
      interval: "It will be shown here when it is made.",
      also: "",
      when: "",
      error: errorInWords(unit, expected ?? null),
      "error-kind": key?.includes("relative") ? "of the count, to be expected" : "to be expected (standard error)",
      expected: "",
      noisy: "",
    });
  }

  #sayLast(last) {
    const value = this.#choice.mainOf(last);
    const { name, group, unit } = value;
    const expected = group === null ? expectedError(this.standing.error, name) : null;
    const where = group === null ? "" : `, ${group}${this.#choice.each ? " (the largest)" : ""}`;
    this.#write({
      "estimate-name": `${capital(valueInWords(name))}${where}`,
      estimate: writerFor(unit, errorOf(value))(value.value),
      interval: value.low === null ? "" : `${intervalInWords(value)} (${short(last.level * 100)}% interval)`,
      also: value.noisy ? "" : inUsers(last, value),
      when: `Release ${whole(last.id)}, ${dated(momentOf(last))}`,
      error: errorInWords(unit, errorOf(value)),
      "error-kind": value.stderr === null ? "half of the interval" : "standard error",
      expected: expected === null ? "" : `about ${errorInWords(unit, expected)} was expected`,
      noisy: value.noisy ? "Mostly noise: the error is larger than what it measures." : "",
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
    fillTable(rows, this.#records, this.#choice);
    earlier.hidden = this.published.earlier === 0;
    earlier.textContent = `Load ${whole(this.published.earlier)} earlier ones`;
  }

  async #savePicture(chart) {
    const words = `${this.title}: ${this.#parts[`${chart}-caption`].textContent}`;
    save(`${this.published.name}-${chart}.png`, await pictureOf(this.#parts[chart], words));
  }

  /** Give buttons and choices names that tell them from those of other counters. */
  #nameControls() {
    const { spend, csv, "series-png": series, "bars-png": bars, "table-region": region } = this.#parts;
    const names = [[spend, "Release now…"], [csv, "Save as CSV"], [series, "Save as PNG, series"], [bars, "Save as PNG, bars"], [region, "Releases"]];
    for (const [part, words] of names) part.setAttribute("aria-label", `${words}: ${this.title}`);
    for (const choice of ["value", "of", "order"]) {
      const words = this.#parts[`${choice}-choice`].firstChild.textContent.trim();
      this.#parts[choice].setAttribute("aria-label", `${words}: ${this.title}`);
    }
  }
}

/** A share as a number of users; nothing where it is not known. */
function inUsers(last, { name, group }) {
  const values = group === null ? last.values : last.groups.find((each) => String(each.group) === group).values;
  const users = usersOf(values, name);
  return users === null ? "" : `about ${writerFor("users", errorOf(users))(users.value)} users`;
}
