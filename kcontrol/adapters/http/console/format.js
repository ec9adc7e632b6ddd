/* Numbers, times and lengths of time as people read them. Fixed locale: two operators must read the same figures. */

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const EXACT = new Intl.DateTimeFormat("en-GB", {
  ...{ year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" },
  ...{ fractionalSecondDigits: 3, timeZoneName: "short" },
});

/** 18204 -> 18,204 */
export const count = (number) => WHOLE.format(number);

/** 12345 -> 12.3K; whole below 10,000. */
export const short = (number) => (Math.abs(number) < 10_000 ? WHOLE.format(number) : SHORT.format(number));

/** One step, 2 steps. */
export const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** A rate with as many digits as help: 0.25, 4.1, 12,380. */
export const rate = (number) => (number >= 100 ? WHOLE.format(number) : String(Number(number.toPrecision(2))));

/** Milliseconds: 47 ms, 1.2 s, 3 min 20 s, 2 h 5 min, 4 d 3 h. */
export function span(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)} s`;
  const s = Math.round(ms / 1_000);
  if (s < 60) return `${s} s`;
  if (s < 3_600) return pair(Math.floor(s / 60), "min", s % 60, "s");
  const min = Math.round(s / 60);
  if (min < 1_440) return pair(Math.floor(min / 60), "h", min % 60, "min");
  const hours = Math.round(min / 60);
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** The same with its largest unit alone, for where there is little room: 47 ms, 5 min, 4 d. */
export const rough = (ms) => span(ms).split(" ").slice(0, 2).join(" ");

/** How long ago; never in the future, whatever the clocks say. */
export const ago = (ms, now) => (now - ms < 1_000 ? "just now" : `${span(now - ms)} ago`);

export const bytes = (number) => {
  if (number < 1_000) return `${WHOLE.format(number)} B`;
  const power = Math.min(4, Math.floor(Math.log10(number) / 3));
  return `${Number((number / 1_000 ** power).toPrecision(3))} ${["", "kB", "MB", "GB", "TB"][power]}`;
};

/** 14:03:07 */
export const time = (ms) => TIME.format(ms);

/** 21/11/2026, 14:03:07.250 GMT+1 */
export const exact = (ms) => EXACT.format(ms);

function pair(large, unit, small, smallUnit) {
  return small ? `${large} ${unit} ${small} ${smallUnit}` : `${large} ${unit}`;
}
