// The page: cards of all counters, kept up to date by the stream of releases. By itself it spends nothing.

import { CounterCard } from "./counter.js";
import { askForToken, askToSpend } from "./dialogs.js";
import { showOverview } from "./overview.js";
import { Published } from "./published.js";
import { ask, counters, spend, token } from "./service.js";
import { follow } from "./stream.js";

const BETWEEN_NEWS = 30_000; // milliseconds between two things that are read out
const cards = new Map();
let may = [];
let lastNews = 0;

const part = (id) => document.getElementById(id);

function sayState(state, words) {
  part("live").textContent = words;
  part("live").parentElement.dataset.state = state;
}

function notice(words) {
  part("notice").textContent = words;
  part("notice").hidden = words === "";
}

/** Load what the page lacks: at first all, and after each break what was missed. */
async function load() {
  const answer = await counters();
  may = answer.may;
  const names = answer.counters.map((standing) => standing.name);
  for (const [name, card] of cards) if (!names.includes(name)) remove(name, card);
  for (const name of names) if (!cards.has(name)) make(name);
  await Promise.all(answer.counters.map(async (standing) => {
    const card = cards.get(standing.name);
    await card.published.catchUp(standing.last);
    card.show(standing, may);
  }));
  notice(names.length ? "" : "There is no counter that may be read here.");
  part("forget").hidden = !token.kept;
  showOverview([...cards.values()]);
  sayState("live", "Live");
}

function make(name) {
  const card = new CounterCard(name, new Published(name), { spend: spendOne, loadEarlier });
  cards.set(name, card);
  part("counters").append(card.element);
}

function remove(name, card) {
  card.element.remove();
  cards.delete(name);
}

function hear(event) {
  const card = cards.get(event.counter);
  if (card === undefined) return;
  if (!card.published.add(event.release)) {
    load().catch(() => {}); // something was missed; if the service is gone, the stream ends, too
    return;
  }
  card.hear(event, may);
  showOverview([...cards.values()]);
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

async function loadEarlier(card) {
  await card.published.loadEarlier();
  card.draw();
}

/** After the stream has ended: whether to connect again at once. */
async function mend(problem) {
  if (problem?.status === 401 || problem?.status === 403) {
    sayState("waiting", "Waiting for a token");
    notice("The counters of this service are shown to those who have a token.");
    token.keep(await askForToken(token.kept ? problem.message : null));
    return true;
  }
  sayState("broken", "Connecting again");
  if (cards.size === 0) notice(problem?.status ? problem.message : "The service does not answer. Trying again.");
  return false;
}

part("forget").addEventListener("click", () => {
  token.forget();
  location.reload();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cards.forEach((card) => card.draw()));
setInterval(() => cards.forEach((card) => card.tick()), 1000);
part("zone").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
follow({ open: (signal) => ask("stream", { signal }), opened: load, heard: hear, failed: mend });
