// All counters at a glance: which are shown, in which order, and how many are in which state.

import { numberOf } from "./words.js";

const FEW = 3; // counters that need no search, and are open from the start
const byTitle = (a, b) => a.title.localeCompare(b.title, "en", { numeric: true });
const soon = ({ standing }) => (standing.next === null ? Infinity : Date.parse(standing.next));
const left = ({ standing }) => standing.budget.releases_left ?? Infinity;
const newest = ({ standing }) => -Date.parse(standing.last?.at ?? 0);
const warnings = ({ flags }) => -flags.filter((flag) => flag.warns).length;
const by = (number) => (a, b) => number(a) - number(b) || byTitle(a, b);
const ORDERS = { file: () => 0, title: byTitle, next: by(soon), left: by(left), newest: by(newest), warnings: by(warnings) };

const part = (id) => document.getElementById(id);

export class Overview {
  #cards = [];

  constructor() {
    for (const [id, event] of [["search", "input"], ["sort", "change"]]) part(id).addEventListener(event, () => this.arrange());
    part("all").addEventListener("click", () => this.#openOrClose());
  }

  /** Show these cards, which are in the order of the file. */
  show(cards) {
    this.#cards = cards;
    part("tools").hidden = cards.length === 0;
    for (const id of ["search", "sort"]) part(id).parentElement.hidden = cards.length <= FEW;
    part("all").hidden = cards.length <= FEW;
    this.arrange();
  }

  /** Whether counters are open when they are shown for the first time. */
  get few() {
    return this.#cards.length <= FEW;
  }

  /** Sort, and hide what was not searched for. The one that has the focus keeps it. */
  arrange() {
    const words = part("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const sorted = [...this.#cards].sort(ORDERS[part("sort").value]);
    const elements = sorted.map((card) => card.element);
    if (elements.some((element, i) => element !== part("list").children[i])) {
      const focus = document.activeElement;
      part("list").replaceChildren(...elements);
      focus?.focus();
    }
    for (const card of this.#cards) card.element.hidden = !words.every((word) => card.searchable.includes(word));
    part("summary").textContent = this.#summary();
    part("summary").hidden = this.few;
    this.#nameButton();
  }

  get #shown() {
    return this.#cards.filter((card) => !card.element.hidden);
  }

  #summary() {
    const shown = this.#shown;
    const states = new Map();
    for (const { words } of shown.flatMap((card) => card.flags)) states.set(words, (states.get(words) ?? 0) + 1);
    const number = shown.length < this.#cards.length ? `${shown.length} of ` : "";
    const said = [...states].map(([words, count]) => `${count} ${words.toLowerCase()}`);
    return [number + numberOf(this.#cards.length, "counters"), ...said].join(" · ");
  }

  #nameButton() {
    part("all").textContent = this.#shown.some((card) => card.isOpen) ? "Close all" : "Open all";
  }

  async #openOrClose() {
    const open = part("all").textContent === "Open all";
    for (const card of this.#shown) await card.setOpen(open); // one after the other: the page stays quick
    this.#nameButton();
  }
}
