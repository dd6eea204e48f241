// The two charts of a counter, and what they say to those who do not see them.

import { drawBars, drawSeries, inWords } from "./charts.js";
import { familyWith } from "./measures.js";
import { errorOf, momentOf, valueOf } from "./published.js";
import { capital, clock, familyInWords, numberOf, short, valueInWords, writerFor } from "./words.js";

/** Draw the series of what is chosen. */
export function showSeries(parts, records, choice) {
  const last = records.at(-1);
  const lines = choice.groupsOf(last).map((group) => ({
    name: group ?? "everybody",
    points: records.map((record) => ({ moment: momentOf(record), ...valueOf(record, choice.name, group) }))
      .filter((point) => point.value !== undefined),
  }));
  const [shown] = choice.shownOf(last);
  const write = writerFor(shown.unit, errorOf(shown));
  const number = numberOf(lines[0].points.length, "releases");
  const caption = `${capital(choice.inWords)}, ${number}, with ${levelsInWords(records)} intervals`;
  const words = `The last, of ${clock(momentOf(last))}: ${write(shown.value)}. The table below has them all.`;
  parts["series-caption"].textContent = caption;
  parts.series.setAttribute("aria-label", `${caption}. ${words}`);
  drawSeries(parts.series, lines, shown.unit, write);
}

/** The level of the intervals, or the lowest and the highest where releases have others. */
function levelsInWords(records) {
  const levels = records.map((record) => record.level);
  const [low, high] = [Math.min(...levels), Math.max(...levels)].map((level) => short(level * 100));
  return low === high ? `${low} %` : `${low} % to ${high} %`;
}

/** Draw the bars of the last release; false if there is nothing to draw side by side. */
export function showBars(parts, last, choice) {
  const found = last.groups.length ? barsOfGroups(last, choice) : barsOfFamily(last, choice);
  parts["bars-figure"].hidden = found === null;
  if (found === null) return false;
  const { bars } = found;
  const caption = `${capital(found.words)}, last release`;
  const said = bars.map((bar) => `${bar.label}: ${inWords(bar)}`);
  parts["bars-caption"].textContent = caption;
  parts.bars.setAttribute("aria-label", `${caption}. ${said.join("; ")}.`);
  drawBars(parts.bars, bars, bars[0].unit, choice.each);
  return true;
}

function barsOfGroups(last, { name }) {
  const bars = last.groups.map(({ group }) => ({ label: group, ...valueOf(last, name, String(group)) }))
    .filter((bar) => bar.value !== undefined);
  return bars.length ? { words: `${valueInWords(name)} by group`, bars } : null;
}

function barsOfFamily(last, { name }) {
  const found = familyWith(last, name);
  return found === null ? null : { words: familyInWords(found.family), bars: found.bars };
}
