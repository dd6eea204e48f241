// The releases of a counter as a table: what the charts show, for those who read it, or copy it.

import { errorOf, writerFor } from "./numbers.js";
import { momentOf } from "./published.js";
import { dated } from "./words.js";

const MOST = 500; // rows

/** Fill a table, the newest first. */
export function fillTable(body, records, choice) {
  body.closest("table").classList.toggle("by-group", choice.each);
  const rows = [];
  for (let i = records.length - 1; i >= 0 && rows.length < MOST; i -= 1) {
    for (const value of choice.shownOf(records[i])) rows.push(rowOf(records[i], value, choice.each));
  }
  body.replaceChildren(...rows);
}

function rowOf(record, shown, byGroup) {
  const { group, unit, value, low, high, stderr, noisy } = shown;
  const write = writerFor(unit, errorOf(shown));
  const missed = record.period?.missed ? ` (${record.period.missed} missed before)` : "";
  const time = `${dated(momentOf(record))}${missed}${noisy ? " (mostly noise)" : ""}`;
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = time;
  row.append(head, ...[...(byGroup ? [group] : []), ...[value, low, high, stderr].map(write)].map((text) => {
    const cell = document.createElement("td");
    cell.textContent = text;
    return cell;
  }));
  return row;
}
