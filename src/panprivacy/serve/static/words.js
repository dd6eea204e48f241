// How times and the names of values read.

import { ENGLISH, whole } from "./numbers.js";

const PLAIN = { // by the name of a value, in the place of # its number
  density: "share of users",
  count: "users",
  mean: "appearances a user",
  at_least: "at least # times",
  exactly: "exactly # times, of those who came",
  active: "active in the last # days",
  active_counts: "active in the last # days",
  daily: "active daily",
  weekly: "active weekly",
  monthly: "active monthly",
  stickiness: "stickiness: daily of monthly",
  cohort: "in the cohort",
  returned: "came back",
  newcomers: "came for the first time",
  rate: "came back, of the cohort",
  curve: "had come back by release #",
};
const KINDS = {
  density: "share of known users",
  distinct: "different users",
  counts: "how often users appear",
  actives: "active users",
  retention: "users who came back",
  continual: "share of known users, at any time",
};

export const kindInWords = (kind) => KINDS[kind] ?? kind;

/** The name of a family of values, and the number of a value in it: "active 3" is the third of "active". */
export function familyOf(name) {
  const [family, number] = name.split(" ");
  return { family, number: number === undefined ? null : Number(number) };
}

/** What the values of a family are, whatever their numbers. */
export const familyInWords = (family) => (PLAIN[family] ?? family.replaceAll("_", " ")).replace("#", "…");

export function valueInWords(name) {
  const { family, number } = familyOf(name);
  const words = familyInWords(family).replace("…", number);
  return number === 1 ? words.replace("1 times", "once").replace("last 1 days", "day") : words;
}

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A day and a time. */
export function dated(moment) {
  const time = moment.toLocaleTimeString(ENGLISH).replace(/:00$/, "");
  return `${moment.toLocaleDateString(ENGLISH, { dateStyle: "medium" })}, ${time}`;
}

/** The same, without the day if that is today. */
export function clock(moment) {
  const today = new Date().toDateString() === moment.toDateString();
  return today ? dated(moment).split(", ")[1] : dated(moment);
}

export function every(seconds) {
  const one = { "1 day": "day", "1 h": "hour", "1 min": "minute", "1 s": "second" };
  return `every ${one[span(seconds).replace("\u00a0", " ")] ?? span(seconds)}`;
}

/** A number of things: "1 release", "2 releases". */
export const numberOf = (number, things) => `${whole(number)} ${number === 1 ? things.replace(/s$/, "") : things}`;

/** A length of time in its two largest units. */
export function span(seconds) {
  const units = [["day", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first === -1) return "0 s";
  let rest = seconds;
  return units.slice(first, first + 2).map(([unit, size]) => {
    const number = Math.floor(rest / size);
    rest -= number * size;
    return number === 0 ? "" : `${number}\u00a0${unit}${unit === "day" && number > 1 ? "s" : ""}`;
  }).filter(Boolean).join(" ");
}
