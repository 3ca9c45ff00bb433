/** Formats times, durations, amounts and names for people. */

const count = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const number = (value: number): string => count.format(value);
export const short = (value: number): string => (value < 10_000 ? count.format(value) : compact.format(value));

/** Number a second: `0.4`, `12`. */
export const rate = (value: number): string => (value < 10 ? value.toFixed(1) : number(Math.round(value)));

/** Names a quantity: `1 turn`, `2 turns`. */
export function many(value: number, one: string, several = `${one}s`): string {
  return `${number(value)} ${value === 1 ? one : several}`;
}

export function usd(value: number): string {
  if (value === 0) return "$0";
  if (value < 0.01) return `$${value.toFixed(4)}`;
  return `$${value < 100 ? value.toFixed(2) : number(Math.round(value))}`;
}

/** A cost as far as it is known: a response without a price is not free. */
export function cost(it: { usd: number; responses_without_price: number }): string {
  if (!it.responses_without_price) return usd(it.usd);
  return it.usd ? `at least ${usd(it.usd)}` : "cost unknown";
}

/** The cost of a batch, which does not count responses without a price. */
export const batchCost = (it: { usd: number; tokens: number }): string =>
  it.usd || !it.tokens ? usd(it.usd) : "no known cost";

export function duration(ms: number): string {
  if (ms < 1) return ms <= 0 ? "0 ms" : "< 1 ms";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = seconds / 60;
  if (minutes < 60) return `${Math.floor(minutes)} min ${Math.round(seconds % 60)} s`;
  const hours = minutes / 60;
  if (hours < 48) return `${Math.floor(hours)} h ${Math.round(minutes % 60)} min`;
  return `${Math.round(hours / 24)} days`;
}

/** Cost, if one is known, and time. */
export function spent(usage: Parameters<typeof cost>[0] | null | undefined, ms: number): string {
  return usage?.usd ? `${cost(usage)} · ${duration(ms)}` : duration(ms);
}

/** Distance of a moment from now: `4 min ago`, `in 2 h`. */
export function relative(at: number, now: number): string {
  const seconds = Math.round((at - now) / 1_000);
  const size = Math.abs(seconds);
  if (size < 5) return "just now";
  const [value, unit] =
    size < 60
      ? [size, "s"]
      : size < 3_600
        ? [size / 60, "min"]
        : size < 172_800
          ? [size / 3_600, "h"]
          : [size / 86_400, "days"];
  const text = `${Math.floor(value)} ${unit}`;
  return seconds < 0 ? `${text} ago` : `in ${text}`;
}

/** Time in the local zone, with seconds. */
export function absolute(at: number): string {
  const time = new Date(at);
  return `${time.toLocaleDateString("en-CA")} ${time.toLocaleTimeString("en-GB")}`;
}

export const clock = (at: number): string => new Date(at).toLocaleTimeString("en-GB");

/** Milliseconds of a time as the API writes it: RFC 3339, or seconds since the Unix epoch. */
export const millis = (time: string | number): number => (typeof time === "number" ? time * 1_000 : Date.parse(time));

/** The end of an id: its beginning is the time and the same for all ids of a minute. */
export const shortId = (id: string): string => id.slice(-8);

export const spaced = (name: string): string => name.replaceAll("_", " ");

export function bytes(size: number): string {
  if (size < 1_024) return `${size} B`;
  return size < 1_048_576 ? `${(size / 1_024).toFixed(1)} KiB` : `${(size / 1_048_576).toFixed(1)} MiB`;
}
