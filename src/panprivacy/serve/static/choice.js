// What of a counter is shown: which of its values, of whom, and in which order.

import { firstOf, namesOf } from "./measures.js";
import { isNoise, valueOf } from "./published.js";
import { valueInWords } from "./words.js";

const EVERYBODY = "everybody";
const EACH = "each group";
const BY_NAME = "by name";
const ORDERS = ["largest first", BY_NAME];
const largest = (a, b) => a.noisy - b.noisy || b.value - a.value; // what is mostly noise comes last
const byName = (a, b) => String(a.group).localeCompare(String(b.group), "en", { numeric: true });

export class Choice {
  #parts;

  constructor(parts, changed) {
    this.#parts = parts;
    for (const choice of ["value", "of", "order"]) parts[choice].addEventListener("change", changed);
    offer(parts.order, ORDERS, ORDERS[0], (text) => text);
  }

  /** The name of the value. */
  get name() {
    return this.#parts.value.value;
  }

  /** Whether each group is shown beside the others. */
  get each() {
    return this.#of === EACH;
  }

  /** The group that is shown; null for everybody. */
  get group() {
    return this.#of === EVERYBODY ? null : this.#of.replace(/^in /, "");
  }

  /** Value and group in words. */
  get inWords() {
    return valueInWords(this.name) + (this.#of === EVERYBODY ? "" : `, ${this.#of}`);
  }

  get #of() {
    return this.#parts.of.value;
  }

  /** The chosen value of each group of a release, in the chosen order. */
  groupsOf(record) {
    const rows = record.groups.map(({ group }) => this.#row(record, String(group))).filter((row) => row.name !== undefined);
    return rows.sort(this.#parts.order.value === BY_NAME ? byName : largest);
  }

  /** The chosen values of a release, each with its group: those of all groups, or one. */
  shownOf(record) {
    if (this.each) return this.groupsOf(record);
    return [this.#row(record, this.group)].filter((row) => row.name !== undefined);
  }

  /** The value that stands for a release: of several groups the largest. */
  mainOf(record) {
    return this.shownOf(record).sort(largest)[0] ?? null;
  }

  #row(record, group) {
    return { group, noisy: isNoise(record, group), ...valueOf(record, this.name, group) };
  }

  /** Offer what a release has, and keep what was chosen if it is still there. */
  offer(kind, last) {
    const groups = last.groups.map((each) => `in ${each.group}`);
    const all = last.values.length ? [EVERYBODY] : [];
    const options = [...all, ...(groups.length > 1 ? [EACH] : []), ...groups];
    offer(this.#parts.of, options, options[0], (text) => text);
    const names = namesOf(this.#of === EVERYBODY ? last.values : last.groups[0].values); // groups may have fewer
    offer(this.#parts.value, names, firstOf(kind, names), valueInWords);
    this.#parts["value-choice"].hidden = names.length < 2;
    this.#parts["of-choice"].hidden = groups.length === 0;
    this.#parts["order-choice"].hidden = groups.length < 2;
  }

  hide() {
    for (const choice of ["value-choice", "of-choice", "order-choice"]) this.#parts[choice].hidden = true;
  }
}

function offer(select, options, first, words) {
  const known = [...select.options].map((option) => option.value);
  if (known.join("\n") === options.join("\n")) return;
  const kept = options.includes(select.value) ? select.value : first;
  select.replaceChildren(...options.map((value) => new Option(words(value), value)));
  select.value = kept;
}
