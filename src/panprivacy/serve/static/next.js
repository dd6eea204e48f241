// When a counter goes on, in words.

import { clock, every, span } from "./words.js";

export function nextOf({ next, schedule, budget, retired }) {
  if (retired) return { large: "Retired", small: "What it published can be read, and nothing is added." };
  if (budget.releases_left === 0) return { large: "None left", small: "All planned releases are made." };
  if (schedule === null || next === null) return { large: "On request", small: "It has no schedule." };
  const moment = new Date(next);
  const seconds = Math.round((moment - Date.now()) / 1000);
  const large = seconds > 0 ? `in ${span(seconds)}` : "Due";
  const when = schedule.by === "clock" ? "at" : "with the first event after";
  const small = `${when} ${clock(moment)}, ${every(schedule.every_seconds)}`;
  return { large, small };
}
