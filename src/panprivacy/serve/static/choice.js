// What of a counter is shown: which of its values, and of whom.

import { firstOf, namesOf } from "./measures.js";
import { valueOf } from "./published.js";
import { valueInWords } from "./words.js";

const EVERYBODY = "everybody";
const EACH = "each group";
const MOST_LINES = 7; // as many as there are colours that all kinds of eyes tell apart

export class Choice {
  #parts;

  constructor(parts, changed) {
    this.#parts = parts;
    for (const choice of ["value", "of"]) parts[choice].addEventListener("change", changed);
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

  /** The groups to be shown, of those that a release has; null stands for everybody. */
  groupsOf(record) {
    return this.each ? record.groups.map((each) => String(each.group)) : [this.group];
  }

  /** The chosen values of a release, each with its group, the largest first. */
  shownOf(record) {
    return this.groupsOf(record).map((group) => ({ group, ...valueOf(record, this.name, group) }))
      .filter((value) => value.name !== undefined).sort((a, b) => b.value - a.value);
  }

  /** Offer what a release has, and keep what was chosen if it is still there. */
  offer(kind, last) {
    const groups = last.groups.map((each) => `in ${each.group}`);
    const all = last.values.length ? [EVERYBODY] : [];
    const each = groups.length > 1 && groups.length <= MOST_LINES ? [EACH] : [];
    const options = [...all, ...each, ...groups];
    offer(this.#parts.of, options, options[0], (text) => text);
    const names = namesOf(this.#of === EVERYBODY ? last.values : last.groups[0].values); // groups may have fewer
    offer(this.#parts.value, names, firstOf(kind, names), valueInWords);
    this.#parts["value-choice"].hidden = names.length < 2;
    this.#parts["of-choice"].hidden = groups.length === 0;
  }

  hide() {
    for (const choice of ["value-choice", "of-choice"]) this.#parts[choice].hidden = true;
  }
}

function offer(select, options, first, words) {
  const known = [...select.options].map((option) => option.value);
  if (known.join("\n") === options.join("\n")) return;
  const kept = options.includes(select.value) ? select.value : first;
  select.replaceChildren(...options.map((value) => new Option(words(value), value)));
  select.value = kept;
}
