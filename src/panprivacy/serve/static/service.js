// What the page asks the service. The token travels in a header, never in an address.

import { capital } from "./words.js";

const KEPT_AS = "panprivacy token"; // in the storage of this tab, which ends with it

/** An answer that is a refusal: RFC 9457 gives its status and its words. */
export class Problem extends Error {
  constructor(status, fields) {
    super(fields.detail ? `${capital(fields.detail)}.` : fields.title);
    this.status = status;
  }
}

export const token = {
  get kept() {
    return sessionStorage.getItem(KEPT_AS);
  },
  keep(text) {
    sessionStorage.setItem(KEPT_AS, text);
  },
  forget() {
    sessionStorage.removeItem(KEPT_AS);
  },
};

/** Ask; the answer comes as it is, or a Problem is thrown. */
export async function ask(path, options = {}) {
  const headers = token.kept ? { authorization: `Bearer ${token.kept}` } : {};
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (answer.ok) return answer;
  const fields = await answer.json().catch(() => ({ title: `The service answered ${answer.status}.` }));
  throw new Problem(answer.status, fields);
}

const jsonOf = async (path, options) => (await ask(path, options)).json();

/** All counters that may be read, and what else may be done: free. */
export const counters = () => jsonOf("counters");

/** What a counter published after the release of this number: free. */
export async function releases(name, since) {
  const all = [];
  for (;;) {
    const part = await jsonOf(`counters/${name}/releases?since=${since}`);
    all.push(...part.releases);
    if (!part.more || !part.releases.length) return all;
    since = all.at(-1).id;
  }
}

/** Spend a release: the only request of this page that does. */
export const spend = (name) => jsonOf(`counters/${name}/releases`, { method: "POST" });
