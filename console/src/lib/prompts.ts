/** Sums over the uses of a prompt. */
import type { Schema } from "./api.ts";

type Version = Schema<"PromptVersion">;

/** The nodes that used a prompt, each once: `planner/assess`. */
export const nodesOf = (it: Version): string[] => [...new Set(it.uses.map((use) => `${use.strategy}/${use.node}`))];

/** Time of the last use; empty without one. */
export const latest = (it: Version): string =>
  it.uses.reduce((last, use) => (last < use.last_used ? use.last_used : last), "");

export function total(uses: Version["uses"]) {
  const sum = { responses: 0, usd: 0, responses_without_price: 0, failed: 0, good: 0, bad: 0 };
  for (const it of uses) {
    sum.responses += it.responses;
    sum.usd += it.usd;
    sum.responses_without_price += it.responses_without_price;
    sum.failed += it.turns.failed;
    sum.good += it.ratings.good;
    sum.bad += it.ratings.bad;
  }
  return sum;
}
