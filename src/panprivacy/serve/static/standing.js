// What is to be known of a counter besides its estimates, in words: when it goes on, and what is the matter with it.

import { clock, every, span } from "./words.js";

const isSpent = ({ budget }) => budget.releases_left === 0;

export function nextOf(standing) {
  const { next, schedule, budget, retired } = standing;
  if (retired) return { large: "Retired", small: "What it published can be read, and nothing is added." };
  if (isSpent(standing)) return { large: "None left", small: `All planned ${budget.releases_are} are made.` };
  if (schedule === null || next === null) return { large: "On request", small: "It has no schedule." };
  const moment = new Date(next);
  const seconds = Math.round((moment - Date.now()) / 1000);
  const large = seconds > 0 ? `in ${span(seconds)}` : "Due";
  const when = schedule.by === "clock" ? "at" : "with the first event after";
  const small = `${when} ${clock(moment)}, ${every(schedule.every_seconds)}`;
  return { large, small };
}

/** What a reader should know before the number: words, and whether they are a warning. */
export function flagsOf(standing) {
  return [
    { words: "Retired", holds: standing.retired },
    { words: "Budget spent", warns: true, holds: isSpent(standing) },
    { words: "Mostly noise", warns: true, holds: standing.last?.mostly_noise },
    { words: "No release yet", holds: standing.last === null },
    { words: "Not secure: its randomness has a seed", warns: true, holds: !standing.secure },
  ].filter((flag) => flag.holds);
}
