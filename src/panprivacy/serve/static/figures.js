// The two charts of a counter, and what they say to those who do not see them.

import { drawBars, drawSeries } from "./charts.js";
import { familyWith } from "./measures.js";
import { inWords, short, whole } from "./numbers.js";
import { isNoise, momentOf, valueOf } from "./published.js";
import { capital, clock, dated, familyInWords, numberOf, valueInWords } from "./words.js";

const MOST_LINES = 7; // as many as there are colours that all kinds of eyes tell apart
const MOST_BARS = 12; // before somebody asks for all

/** Draw the series of what is chosen, of releases that are shown; `earlier` ones are not loaded. */
export function showSeries(parts, records, choice, earlier) {
  const last = records.at(-1);
  const lines = choice.shownOf(last).slice(0, MOST_LINES).map(({ group }) => ({
    name: group ?? "everybody",
    points: records.map((record) => ({
      moment: momentOf(record), noisy: isNoise(record, group), ...valueOf(record, choice.name, group),
    })).filter((point) => point.value !== undefined),
  }));
  const main = choice.mainOf(last);
  const of = earlier ? `the last ${whole(records.length)} of ${numberOf(records.length + earlier, "releases")}`
    : numberOf(lines[0].points.length, "releases");
  const some = choice.each && last.groups.length > MOST_LINES ? ` (${MOST_LINES} of ${last.groups.length})` : "";
  const noisy = lines.some((line) => line.points.some((point) => point.noisy)) ? "; hollow: mostly noise" : "";
  const caption = `${capital(choice.inWords)}${some}, ${of}, with ${levelsInWords(records)} intervals${noisy}`;
  const words = `The last, of ${clock(momentOf(last))}: ${inWords(main)}. The table below has them all.`;
  parts["series-caption"].textContent = caption;
  parts.series.setAttribute("aria-label", `${caption}. ${words}`);
  return drawSeries(parts.series, lines, main.unit);
}

/** The level of the intervals, or the lowest and the highest where releases have others. */
function levelsInWords(records) {
  const levels = records.map((record) => record.level);
  const [low, high] = [Math.min(...levels), Math.max(...levels)].map((level) => short(level * 100));
  return low === high ? `${low}%` : `${low}% to ${high}%`;
}

/** Draw the bars of a release; null if there is nothing to draw side by side. */
export function showBars(parts, last, choice, all) {
  const found = last.groups.length ? barsOfGroups(last, choice) : barsOfFamily(last, choice);
  parts["bars-figure"].hidden = found === null;
  if (found === null) return null;
  const bars = all ? found.bars : found.bars.slice(0, MOST_BARS);
  const noisy = bars.some((bar) => bar.noisy) ? "; pale: mostly noise" : "";
  const caption = `${capital(found.words)}, ${dated(momentOf(last))}${noisy}`;
  const said = bars.map((bar) => `${bar.label}: ${inWords(bar)}`);
  parts["bars-caption"].textContent = caption;
  parts.bars.setAttribute("aria-label", `${caption}. ${said.join("; ")}.`);
  parts["all-bars"].hidden = found.bars.length <= MOST_BARS;
  parts["all-bars"].textContent = all ? `Show ${MOST_BARS} groups` : `Show all ${found.bars.length} groups`;
  return drawBars(parts.bars, bars, bars[0].unit, choice.each ? MOST_LINES : 0);
}

function barsOfGroups(last, choice) {
  const bars = choice.groupsOf(last).map((row) => ({ label: row.group, ...row }));
  return bars.length ? { words: `${valueInWords(choice.name)} by group`, bars } : null;
}

function barsOfFamily(last, { name }) {
  const found = familyWith(last, name);
  if (found === null) return null;
  return { words: familyInWords(found.family), bars: found.bars.map((bar) => ({ ...bar, noisy: last.mostly_noise })) };
}
