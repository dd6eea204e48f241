// The page: cards of all counters, kept up to date by the stream of releases. By itself it spends nothing.

import { CounterCard } from "./counter.js";
import { askForToken, askToSpend } from "./dialogs.js";
import { Overview } from "./overview.js";
import { Published } from "./published.js";
import { TimeRange } from "./range.js";
import { ask, counters, spend, token } from "./service.js";
import { follow } from "./stream.js";
import { clock } from "./words.js";

const BETWEEN_NEWS = 30_000; // milliseconds between two things that are read out
const TITLE = document.title;
const cards = new Map();
const overview = new Overview();
const range = new TimeRange(() => refresh());
let may = [];
let lastNews = 0;
let goneSince = null;

const part = (id) => document.getElementById(id);

function sayState(state, words) {
  part("live").textContent = words;
  part("live").parentElement.dataset.state = state;
}

function notice(words) {
  part("notice").textContent = words;
  part("notice").hidden = words === "";
}

/** Say that the service is gone, or, without words, that it is back. */
function sayGone(words) {
  part("gone").textContent = words;
  part("gone").hidden = words === "";
  document.body.classList.toggle("is-gone", words !== "");
  document.title = words === "" ? TITLE : `Not connected · ${TITLE}`;
  if (words === "") goneSince = null;
}

/** Load what the page lacks: at first all, and after each break what was missed. */
async function load() {
  const answer = await counters();
  may = answer.may;
  const names = answer.counters.map((standing) => standing.name);
  const isFirst = cards.size === 0;
  for (const name of cards.keys()) if (!names.includes(name)) cards.delete(name);
  for (const standing of answer.counters) {
    if (!cards.has(standing.name)) cards.set(standing.name, new CounterCard(new Published(standing.name), range, { spend: spendOne, open }));
    cards.get(standing.name).show(standing, may);
  }
  overview.show(names.map((name) => cards.get(name))); // before anything is drawn: Plotly measures the place it has
  if (isFirst && overview.few) await Promise.all([...cards.values()].map((card) => card.setOpen(true)));
  else await refresh();
  if (isFirst) await openNamed();
  notice(noticeOf(names, answer.damaged));
  part("forget").hidden = !token.kept;
  sayState("live", "Live");
  sayGone("");
}

function noticeOf(names, damaged) {
  if (damaged.length) return `Damaged, and not shown: ${damaged.join(", ")}. The log of the service says why.`;
  return names.length ? "" : "There is no counter that may be read here.";
}

const refresh = () => Promise.all([...cards.values()].map((card) => card.refresh()));

/** Open or close a card; the address names the one that was opened last. */
async function open(card, isOpen) {
  history.replaceState(null, "", isOpen ? `#${card.element.id}` : location.pathname);
  await card.setOpen(isOpen).catch((problem) => notice(`${card.title}: ${problem.message}`));
  overview.arrange();
}

/** Open the card that the address names. */
async function openNamed() {
  const card = cards.get(location.hash.replace("#counter-", ""));
  if (card === undefined) return;
  await card.setOpen(true);
  overview.arrange();
  card.element.scrollIntoView();
}

function hear(event) {
  const card = cards.get(event.counter);
  if (card === undefined) return;
  const { next, budget, release } = event;
  card.show({ ...card.standing, next, budget, last: release }, may);
  if (card.published.add(release)) card.draw();
  else card.refresh().catch(() => {}); // something was missed; if the service is gone, the stream ends, too
  overview.arrange();
  readOut(`${card.title}: ${card.brief}`);
}

/** Have a screen reader say it, unless it has just said something. */
function readOut(words) {
  if (Date.now() - lastNews < BETWEEN_NEWS) return;
  lastNews = Date.now();
  part("news").textContent = words;
}

async function spendOne(standing) {
  if (!(await askToSpend(standing))) return;
  try {
    await spend(standing.name); // the stream brings it
  } catch (problem) {
    notice(problem.message);
  }
}

/** After the stream has ended: whether to connect again at once. */
async function mend(problem) {
  if (problem?.status === 401 || problem?.status === 403) {
    sayState("waiting", "Waiting for a token");
    sayGone("");
    notice("The counters of this service are shown to those who have a token.");
    token.keep(await askForToken(token.kept ? problem.message : null));
    return true;
  }
  goneSince ??= new Date();
  sayState("broken", "Connecting again");
  notice("");
  const why = problem?.status ? problem.message : "The service does not answer.";
  const old = cards.size ? " What you see may be out of date." : "";
  sayGone(`${why} Not connected since ${clock(goneSince)}.${old} Trying again.`);
  return false;
}

part("forget").addEventListener("click", () => {
  token.forget();
  location.reload();
});
addEventListener("hashchange", openNamed);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cards.forEach((card) => card.draw()));
setInterval(() => cards.forEach((card) => card.tick()), 1000);
part("zone").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
notice("Asking the service for its counters.");
follow({ open: (signal) => ask("stream", { signal }), opened: load, heard: hear, failed: mend });
