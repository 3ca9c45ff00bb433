/** The time of a turn as the API attributes it: each moment has one use, and each request its attempts. */
import type { Schema } from "./api.ts";

export type Timeline = Schema<"TurnTimeline">;
export type Use = Schema<"TimeKind">;
export type Part = Schema<"TimeSegment">;

/** Names of the uses, in the order of a legend. */
export const USES: Record<Use, string> = {
  model: "model",
  tool: "tool",
  engine: "engine",
  slot: "waiting for a slot",
  limit: "waiting for a limit or provider",
  person: "waiting for a person",
  no_worker: "no worker alive",
};

/** The parts of a time between two moments, in milliseconds after the start of the turn. */
export function between(parts: Part[], from: number, to: number): Part[] {
  // The parts follow each other, so the first one that ends later is found by halves.
  let [low, high] = [0, parts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (parts[middle].to_ms <= from) low = middle + 1;
    else high = middle;
  }
  const found: Part[] = [];
  for (let nth = low; nth < parts.length && parts[nth].from_ms < to; nth += 1) {
    const { kind, from_ms, to_ms } = parts[nth];
    found.push({ kind, from_ms: Math.max(from, from_ms), to_ms: Math.min(to, to_ms) });
  }
  return found;
}

/** An attempt at one request of a node. */
export interface Try extends Schema<"TimedAttempt"> {
  /** Its number among the attempts at its request, from 1, and their number. */
  nth: number;
  of: number;
  /** End of the attempt before it at the same request. */
  after?: number;
  /** True if the node waited for this request to the end: it is on the critical path. */
  isCritical: boolean;
  /** Time by which its request ended before the last one of the node. */
  spare: number;
}

/** The attempts of a turn by the event that made their requests, in the order of their starts. */
export function triesOf(attempts: Timeline["attempts"]): Map<number, Try[]> {
  const groups = new Map<number, Try[]>();
  for (const [seq, made] of Map.groupBy(attempts, (it) => it.asked_seq)) {
    const slots = [...Map.groupBy(made, (it) => it.slot)].sort(([a], [b]) => a - b);
    const ends = slots.map(([, tries]) => Math.max(...tries.map((it) => it.to_ms)));
    const end = Math.max(...ends);
    const critical = ends.indexOf(end);
    const all = slots.flatMap(([, tries], slot) => {
      const sorted = tries.toSorted((a, b) => a.from_ms - b.from_ms || a.to_ms - b.to_ms);
      return sorted.map((it, nth): Try => ({
        ...it,
        nth: nth + 1,
        of: sorted.length,
        after: sorted[nth - 1]?.to_ms,
        isCritical: slot === critical,
        spare: end - ends[slot],
      }));
    });
    groups.set(seq, all);
  }
  return groups;
}

/** Reports whether requests of one node ran side by side, so that not all are on the critical path. */
export const hasParallel = (groups: Map<number, Try[]>): boolean =>
  [...groups.values()].some((tries) => tries.some((it) => !it.isCritical));
