// How numbers, times and the names of values read.

const ENGLISH = "en-GB";
const PLAIN = { // by the name of a value, in the place of # its number
  density: "share of users",
  count: "users",
  mean: "appearances a user",
  at_least: "at least # times",
  exactly: "exactly # times, of those who came",
  active: "active in the last # days",
  active_counts: "active in the last # days",
  daily: "active daily",
  weekly: "active weekly",
  monthly: "active monthly",
  stickiness: "stickiness: daily of monthly",
  cohort: "in the cohort",
  returned: "came back",
  newcomers: "came for the first time",
  rate: "came back, of the cohort",
  curve: "had come back by release #",
};
const KINDS = {
  density: "share of a known universe",
  distinct: "different users",
  counts: "how often users appear",
  actives: "users active lately",
  retention: "users who came back",
  continual: "share of a known universe, at any time",
};

export const kindInWords = (kind) => KINDS[kind] ?? kind;

/** The name of a family of values, and the number of a value in it: "active 3" is the third of "active". */
export function familyOf(name) {
  const [family, number] = name.split(" ");
  return { family, number: number === undefined ? null : Number(number) };
}

/** What the values of a family are, whatever their numbers. */
export const familyInWords = (family) => (PLAIN[family] ?? family.replaceAll("_", " ")).replace("#", "…");

export function valueInWords(name) {
  const { family, number } = familyOf(name);
  const words = familyInWords(family).replace("…", number);
  return number === 1 ? words.replace("1 times", "once").replace("last 1 days", "day") : words;
}

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export const whole = (number) => number.toLocaleString(ENGLISH, { maximumFractionDigits: 0 });

/** A function that writes numbers of a unit with as many digits as an error lets mean something. */
export function writerFor(unit, error) {
  const scale = unit === "share" ? 100 : 1;
  const sure = error ? 1 - Math.floor(Math.log10(error * scale)) : 1; // two digits of the error
  const digits = unit === "users" ? 0 : Math.min(Math.max(sure, 0), 6);
  const step = 10 ** Math.max(-sure, 0); // thousands of users whose error is thousands are written as thousands
  const places = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return (number) => {
    if (number === null || number === undefined) return "–";
    const plain = step > 1 ? Math.round((number * scale) / step) * step : number * scale;
    const signed = Math.abs(plain) < 10 ** -digits / 2 ? 0 : plain; // no minus nought
    return signed.toLocaleString(ENGLISH, places) + (unit === "share" ? " %" : "");
  };
}

export const short = (number) => number.toLocaleString(ENGLISH, { maximumSignificantDigits: 3 });

export function clock(moment) {
  const today = new Date().toDateString() === moment.toDateString();
  const time = moment.toLocaleTimeString(ENGLISH).replace(/:00$/, "");
  return today ? time : `${moment.toLocaleDateString(ENGLISH, { dateStyle: "medium" })}, ${time}`;
}

export function every(seconds) {
  const one = { "1 day": "day", "1 h": "hour", "1 min": "minute", "1 s": "second" };
  return `every ${one[span(seconds)] ?? span(seconds)}`;
}

/** A number of things: "1 release", "2 releases". */
export const numberOf = (number, things) => `${whole(number)} ${number === 1 ? things.replace(/s$/, "") : things}`;

/** A length of time in its two largest units. */
export function span(seconds) {
  const units = [["day", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first === -1) return "0 s";
  let rest = seconds;
  return units.slice(first, first + 2).map(([unit, size]) => {
    const number = Math.floor(rest / size);
    rest -= number * size;
    return number === 0 ? "" : `${number} ${unit}${unit === "day" && number > 1 ? "s" : ""}`;
  }).filter(Boolean).join(" ");
}
