/** Counts of turns and of model usage over a period, for the overview. */
import type { Schema } from "./api.ts";
import { millis } from "./format.ts";

type Stats = Schema<"Stats">;

export type Interval = Omit<Schema<"StatsInterval">, "at"> & {
  /** Start, in seconds since the Unix epoch. */
  at: number;
};

/** All intervals of a period, also those in which nothing happened. */
export function intervals(stats: Stats): Interval[] {
  const known = new Map(stats.series.map((it) => [millis(it.at), it]));
  const step = stats.interval_seconds * 1_000;
  const all: Interval[] = [];
  for (let at = millis(stats.since); at <= millis(stats.until); at += step) {
    const ended = { answered: 0, partial: 0, declined: 0, interrupted: 0, in_doubt: 0, failed: 0, cancelled: 0 };
    const none = { ...ended, tokens: 0, usd: 0 };
    all.push({ ...(known.get(at) ?? none), at: at / 1_000 });
  }
  return all;
}

/** Number of turns that ended. */
export const allEnded = (it: Schema<"EndedTurns">): number =>
  it.answered + it.partial + it.declined + it.interrupted + (it.in_doubt ?? 0) + it.failed + it.cancelled;

/** Turns that ended in the last whole minute, a second. */
export function lastMinute(hour: Stats): number {
  const last = intervals(hour).at(-2);
  return last ? allEnded(last) / hour.interval_seconds : 0;
}
