/** Load, failures and cost of the newest turns. */
import type { Schema } from "./api.ts";
import { millis } from "./format.ts";

type Turn = Schema<"Turn">;

/** Number of turns that the overview reads. */
export const RECENT = 200;

/** Condition for the turns of the last day. */
export const DAY = "age < 1d";

export interface Bucket {
  /** Start, in seconds since the Unix epoch. */
  at: number;
  ended: number;
  failed: number;
  asked: number;
}

const STEPS = [10, 30, 60, 300, 900, 3_600, 10_800, 86_400, 604_800];
const MAX_BUCKETS = 40;

/** Counts turns by the time of submission, in buckets of an even length. */
export function bucketsOf(turns: Turn[], now: number): Bucket[] {
  if (!turns.length) return [];
  const times = turns.map((it) => millis(it.created_at) / 1_000);
  const first = Math.min(...times);
  const span = now / 1_000 - first;
  const step = STEPS.find((it) => span / it <= MAX_BUCKETS) ?? STEPS.at(-1)!;
  const start = Math.floor(first / step) * step;
  const buckets = Array.from({ length: Math.floor((now / 1_000 - start) / step) + 1 }, (_, nth) => ({
    at: start + nth * step,
    ended: 0,
    failed: 0,
    asked: 0,
  }));
  turns.forEach((turn, nth) => {
    const bucket = buckets[Math.floor((times[nth] - start) / step)];
    if (turn.status === "failed") bucket.failed += 1;
    else if (turn.status === "interrupted") bucket.asked += 1;
    else bucket.ended += 1;
  });
  return buckets;
}

export interface StrategyCost {
  strategy: string;
  turns: number;
  failed: number;
  tokens: number;
  usd: number;
  unpriced: number;
  /** Median time from submission to end, in milliseconds. */
  took: number;
}

export function costByStrategy(turns: Turn[]): StrategyCost[] {
  const groups = Map.groupBy(turns, (it) => it.strategy);
  const costs = [...groups].map(([strategy, own]) => {
    const ended = own.filter((it) => it.ended_seq != null).map((it) => millis(it.updated_at) - millis(it.created_at));
    const sum = (of: (usage: Schema<"Usage">) => number) =>
      own.reduce((total, it) => total + (it.usage ? of(it.usage) : 0), 0);
    return {
      strategy,
      turns: own.length,
      failed: own.filter((it) => it.status === "failed").length,
      tokens: sum((it) => it.input_tokens + it.output_tokens),
      usd: sum((it) => it.usd),
      unpriced: sum((it) => it.responses_without_price),
      took: ended.sort((a, b) => a - b)[Math.floor(ended.length / 2)] ?? 0,
    };
  });
  return costs.sort((a, b) => b.usd - a.usd || b.turns - a.turns);
}

/** Sum of a counter over all its labels, in the text format of Prometheus. */
export function counter(text: string, name: string): number {
  const lines = text.split("\n").filter((it) => it.startsWith(name) && /^[{ ]/.test(it.slice(name.length)));
  return lines.reduce((sum, it) => sum + Number(it.split(" ").at(-1)), 0);
}
