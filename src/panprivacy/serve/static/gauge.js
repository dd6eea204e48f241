// Bars that show how much is spent, and say it to those who do not see them.

import { numberOf, short, whole } from "./words.js";

/** The gauges of a budget: the loss, and the releases if they are limited. */
export function gaugesOf({ epsilon, spent, remaining, releases, releases_left: left, releases_are: are }) {
  const name = "Privacy budget, epsilon";
  if (releases === null) return [gauge(name, spent, epsilon, `ε ${short(spent)} in each cycle`, "as planned")];
  const loss = gauge(name, spent, epsilon, `ε ${short(spent)} spent`, `${short(remaining)} left`);
  const made = releases - left;
  return [loss, gauge(`Planned ${are}`, made, releases, `${numberOf(made, are)} made`, `${whole(left)} left`)];
}

function gauge(label, value, most, spent, left) {
  const made = document.getElementById("gauge").content.cloneNode(true).firstElementChild;
  made.querySelector("[data-of=spent]").textContent = spent;
  made.querySelector("[data-of=left]").textContent = left;
  const bar = made.querySelector("[role=meter]");
  bar.setAttribute("aria-label", label);
  bar.setAttribute("aria-valuenow", value);
  bar.setAttribute("aria-valuemax", most);
  bar.setAttribute("aria-valuetext", `${spent}, ${left}`);
  bar.firstElementChild.style.width = `${Math.min(value / most, 1) * 100}%`;
  return made;
}
