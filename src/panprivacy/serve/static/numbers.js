// How numbers read: with as many digits as their errors let mean something.

export const ENGLISH = "en-GB";

/** The standard error of a value; half of its interval where it has none. */
export function errorOf({ stderr, low, high }) {
  return stderr ?? ((low ?? high ?? null) === null ? null : (high - low) / 2);
}

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
    const exact = number * scale;
    const own = Math.min(step, 10 ** Math.floor(Math.log10(Math.abs(exact) || 1))); // what is not 0 is not written as 0
    const plain = step > 1 ? Math.round(exact / own) * own : exact;
    const signed = Math.abs(plain) < 10 ** -digits / 2 ? 0 : plain; // no minus nought
    return signed.toLocaleString(ENGLISH, places) + (unit === "share" ? "%" : "");
  };
}

/** A value with its interval, each value with the digits that its own error lets mean something. */
export const inWords = (value) => `${writerFor(value.unit, errorOf(value))(value.value)} (${intervalInWords(value)})`;

/** The interval of a value; one of a number that anybody may raise can be without an end. */
export function intervalInWords(value) {
  const write = writerFor(value.unit, errorOf(value));
  return value.high === null ? `${write(value.low)} or more` : `${write(value.low)} to ${write(value.high)}`;
}

/** An error of a unit. One above 100% says no more than that. */
export function errorInWords(unit, error) {
  if (error === null) return "–";
  return unit === "share" && error > 1 ? "± over 100%" : `± ${writerFor(unit, error)(error)}`;
}

export const short = (number) => number.toLocaleString(ENGLISH, { maximumSignificantDigits: 3 });
