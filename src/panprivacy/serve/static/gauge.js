// Bars that show how much is spent, and say it to those who do not see them.

import { short, whole } from "./numbers.js";
import { numberOf } from "./words.js";

/** The gauges of a budget: the loss, and the releases if they are limited. */
export function gaugesOf({ epsilon, state, spent, remaining, releases, releases_left: left, releases_are: are }) {
  const name = "Privacy budget, epsilon";
  if (releases === null) return [gauge(name, spent, epsilon, `epsilon ${short(spent)} in each cycle`, "as planned", state)];
  const loss = gauge(name, spent, epsilon, `epsilon ${short(spent)} spent`, `${short(remaining)} left`, state);
  const made = releases - left;
  const stock = gauge(`Planned ${are}`, made, releases, `${numberOf(made, are)} made`, `${whole(left)} left`);
  for (const each of [loss, stock]) each.classList.toggle("used-up", left === 0);
  return [loss, stock];
}

/** Why something is spent before anything is released. */
export function stateInWords({ state, releases, releases_left: left }) {
  const before = releases !== null && left === releases ? "Spent before the first release: " : "";
  return `${before}${short(state)} ${before ? "" : "of it "}is for the state, which an intruder might read.`;
}

/** `part` of the value is drawn apart. */
function gauge(label, value, most, spent, left, part = 0) {
  const made = document.getElementById("gauge").content.cloneNode(true).firstElementChild;
  made.querySelector("[data-of=spent]").textContent = spent;
  made.querySelector("[data-of=left]").textContent = left;
  const bar = made.querySelector("[role=meter]");
  bar.setAttribute("aria-label", label);
  bar.setAttribute("aria-valuenow", value);
  bar.setAttribute("aria-valuemax", most);
  bar.setAttribute("aria-valuetext", `${spent}, ${left}`);
  bar.firstElementChild.style.width = `${Math.min(value / most, 1) * 100}%`;
  bar.style.setProperty("--part", `${Math.min(part / value, 1) * 100}%`);
  return made;
}
