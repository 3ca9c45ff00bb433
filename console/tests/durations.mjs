/** Durations as the page writes them: `350 ms`, `1.5 s`, `40 s`, `1 min 30 s`. */
const UNITS = { ms: 1, s: 1_000, min: 60_000 };

/** Milliseconds of each duration in a text. */
export function durations(text) {
  const sum = (it) => [...it.matchAll(/([\d.]+) (ms|s|min)\b/g)].reduce((all, [, n, unit]) => all + n * UNITS[unit], 0);
  return (text.match(/(\d+ min )?[\d.]+ (ms|s)\b/g) ?? []).map(sum);
}

/** The most by which the text of a duration differs from it, in milliseconds. */
export const rounding = (ms) => (ms < 1_000 ? 1 : ms < 10_000 ? 50 : 500);
