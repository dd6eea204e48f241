// What the page asks people: for a token, and whether to spend.

import { numberOf } from "./words.js";

const part = (id) => document.getElementById(id);

/** Ask for a token until one is given; `why` says what was wrong with the last. */
export function askForToken(why) {
  const dialog = part("asking");
  if (why) part("asking-why").textContent = why;
  part("token").value = "";
  return new Promise((given) => {
    const closed = () => {
      if (dialog.returnValue !== "read") {
        dialog.showModal(); // without a token there is nothing to see
        return;
      }
      dialog.removeEventListener("close", closed);
      given(part("token").value.trim());
    };
    dialog.addEventListener("close", closed);
    dialog.returnValue = "";
    dialog.showModal();
  });
}

/** Ask whether to spend a release of a counter. */
export function askToSpend({ title, budget }) {
  const dialog = part("spending");
  const { releases_left: left, releases_are: are } = budget;
  const stock = left === null ? "" : ` Left before it: ${numberOf(left, are)}.`;
  const cost = `${title}: what is published now stays published, and is paid for with a part of the budget.`;
  part("spending-cost").textContent = cost + stock;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((answered) => {
    dialog.addEventListener("close", () => answered(dialog.returnValue === "spend"), { once: true });
  });
}
