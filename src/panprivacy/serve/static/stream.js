// Server-sent events by fetch: an EventSource cannot send the header with the token.

const SILENCE = 50_000; // milliseconds without a byte after which a connection is dead: some are sent every 20 s
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;

/** Cuts text that comes in pieces into events, whose data are JSON. */
export class Cutter {
  #rest = "";

  take(piece) {
    const blocks = (this.#rest + piece).split("\n\n");
    this.#rest = blocks.pop();
    return blocks.map(dataOf).filter(Boolean).map((data) => JSON.parse(data));
  }
}

function dataOf(block) {
  const lines = block.split("\n").filter((line) => line.startsWith("data:"));
  return lines.map((line) => line.slice(5).trimStart()).join("\n");
}

/**
 * Listen for as long as the page lives, and connect again whenever the connection ends.
 *
 * `open` asks for the stream. `opened` is awaited before the first event is read: what it loads is never older than
 * the stream, so that nothing falls between the two. `failed` may wait, for a token say, and returns whether to go on
 * at once.
 */
export async function follow({ open, opened, heard, failed }) {
  for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
    let error = null;
    try {
      await listen(open, async () => {
        await opened();
        pause = FIRST_PAUSE;
      }, heard);
    } catch (problem) {
      error = problem;
    }
    if (await failed(error)) pause = FIRST_PAUSE;
    else await sleep(pause * (0.5 + Math.random()));  // not all readers of a service that restarts at once
  }
}

async function listen(open, opened, heard) {
  const end = new AbortController();
  let silence = setTimeout(() => end.abort(), SILENCE);
  try {
    const answer = await open(end.signal);
    await opened();
    const cutter = new Cutter();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      clearTimeout(silence);
      silence = setTimeout(() => end.abort(), SILENCE);
      cutter.take(piece.value).forEach(heard);
    }
  } finally {
    clearTimeout(silence);
    end.abort();
  }
}

/** Wait, but not longer than until the network or the reader comes back. */
function sleep(milliseconds) {
  return new Promise((done) => {
    setTimeout(done, milliseconds);
    addEventListener("online", done, { once: true });
    document.addEventListener("visibilitychange", done, { once: true });
  });
}
