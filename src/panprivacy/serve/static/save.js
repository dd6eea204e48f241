// What is shown, as files.

import { momentOf } from "./published.js";

const COLUMNS = ["counter", "release", "time", "group", "value", "estimate", "low", "high", "standard_error", "level", "mostly_noise"];

/** The chosen values of releases as CSV, with all of their digits; times are in UTC. */
export function csvOf(counter, records, choice) {
  const rows = records.flatMap((record) => choice.shownOf(record).map((shown) => [
    counter, record.id, momentOf(record).toISOString(), shown.group, shown.name,
    shown.value, shown.low, shown.high, shown.stderr, record.level, shown.noisy,
  ]));
  return [COLUMNS, ...rows].map((row) => `${row.map(cellOf).join(",")}\r\n`).join("");
}

/** A cell by RFC 4180. A text that a spreadsheet would compute gets a quote before it. */
function cellOf(value) {
  if (typeof value !== "string") return value ?? "";
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Have the browser save a text, or what is behind an address of this page. */
export function save(name, content, type = null) {
  const link = document.createElement("a");
  link.href = type === null ? content : URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  if (type !== null) setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
