// Which values of a counter can be shown, which of them first, and which belong together.

import { familyOf } from "./words.js";

const FIRST = { counts: ["mean"], actives: ["daily"], retention: ["rate", "returned"] }; // a rate may lack data
const HIDDEN = new Set(["curve", "active_counts"]); // the series itself, and values again in users
const EXPECTED = {
  density: ["density_stderr", "density_error"],
  mean: ["mean_stderr"],
  at_least: ["share_stderr"],
  active: ["active_stderr"],
  daily: ["active_stderr"],
  weekly: ["active_stderr"],
  monthly: ["active_stderr"],
  returned: ["returned_stderr"],
};

/** The name of the same value in users: a density has a count. */
function inUsers(name) {
  const { family, number } = familyOf(name);
  if (name === "density") return "count";
  return number === null ? `${name}_count` : `${family}_counts ${number}`;
}

/** The names of the values that can be shown; what is said in users beside another is left out. */
export function namesOf(values) {
  const names = values.map((value) => value.name);
  const beside = new Set(names.map(inUsers));
  return names.filter((name) => !beside.has(name) && !HIDDEN.has(familyOf(name).family));
}

/** The value of a counter that is shown by default. */
export function firstOf(kind, names) {
  return FIRST[kind]?.find((name) => names.includes(name)) ?? names[0];
}

/** The value in users that says the same, if there is one. */
export const usersOf = (values, name) => values.find((value) => value.name === inUsers(name)) ?? null;

/** The values of the last release that belong in one row of bars, with what the numbers in their names are of. */
export function familyWith(record, name) {
  const numbered = (family) => record.values.filter((value) => {
    const of = familyOf(value.name);
    return of.family === family && of.number !== null;
  });
  const families = [familyOf(name).family, "active", "at_least"];
  const family = families.find((each) => numbered(each).length > 1);
  if (family === undefined) return null;
  return { family, bars: numbered(family).map((value) => ({ label: familyOf(value.name).number, ...value })) };
}

/** The error that was to be expected before anything was released, if it is known for this value. */
export function expectedError(error, name) {
  const key = EXPECTED[familyOf(name).family]?.find((each) => error[each] != null);
  return key === undefined ? null : error[key];
}
