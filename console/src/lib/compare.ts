/** Two logs side by side, aligned by their nodes. */
import type { Schema } from "./api.ts";
import { differences } from "./difference.ts";
import { body, type LogEvent } from "./events.ts";
import { blanked, matches } from "./words.ts";

/** A value that differs, as text; undefined if a side does not have it. */
export interface Changed {
  name: string;
  left?: string;
  right?: string;
}

/** An event of both logs, or of one. */
export interface Pair {
  left?: LogEvent;
  right?: LogEvent;
  /** Values that differ. Empty if the events are the same. */
  changes: Changed[];
  isSame: boolean;
}

/** A visit of a node, or several visits that are the same in both logs. */
export interface Group {
  nodes: string[];
  pairs: Pair[];
  isSame: boolean;
}

/** Fields that differ in every run. */
const IGNORED = ["turn", "actor", "caller", "time", "worker", "usage", "retry_after_ms"];

/** Names of the values that people compare most. */
const NAMES: [RegExp, string][] = [
  [/(^|\.)system$/, "prompt"],
  [/(^|\.)messages\.\d+\.content$/, "message"],
  [/^response\.content$/, "answer"],
  [/^response\.text$/, "result"],
];

/** Aligns two logs as the API did: an event that is in none of its rows is the same in both. */
export function aligned(diff: Schema<"ThreadDiff">, left: LogEvent[], right: LogEvent[]): Pair[] {
  const pairs: Pair[] = [];
  let [l, r, rest] = [0, 0, diff.same];
  const same = (count: number) => {
    for (; 0 < count && l < left.length && r < right.length; count -= 1) {
      pairs.push({ left: left[l++], right: right[r++], changes: [], isSame: true });
      rest -= 1;
    }
  };
  for (const row of diff.rows) {
    same(row.left == null ? row.right! - r : row.left - l);
    const pair = { left: row.left == null ? undefined : left[l++], right: row.right == null ? undefined : right[r++] };
    if (!pair.left && !pair.right) break;
    const changes = pair.left && pair.right ? changed(pair.left, pair.right) : [];
    pairs.push({ ...pair, changes, isSame: !!pair.left && !!pair.right && !changes.length });
  }
  same(rest);
  return pairs;
}

/** Where the conversation of a request ends differs between all turns of a thread. */
const CONTEXT = /(^|\.)context\.(start|end)$/;

/** Aligns two turns by the kinds of their events and their nodes. */
export function alignedTurns(left: LogEvent[], right: LogEvent[]): Pair[] {
  const place = (it: LogEvent) => `${it.kind} ${body(it).node ?? ""} ${body(it).slot ?? ""}`;
  const pairs: Pair[] = [];
  let [l, r] = [0, 0];
  const alone = (upToLeft: number, upToRight: number) => {
    while (l < upToLeft) pairs.push({ left: left[l++], changes: [], isSame: false });
    while (r < upToRight) pairs.push({ right: right[r++], changes: [], isSame: false });
  };
  for (const [x, y] of matches(left.map(place), right.map(place))) {
    alone(x, y);
    const changes = changed(left[x], right[y]).filter((it) => !CONTEXT.test(it.name));
    pairs.push({ left: left[x], right: right[y], changes, isSame: !changes.length });
    [l, r] = [x + 1, y + 1];
  }
  alone(left.length, right.length);
  return pairs;
}

/** The values of two events that differ in more than clocks and ids. */
function changed(left: LogEvent, right: LogEvent): Changed[] {
  const fields = (it: LogEvent) =>
    Object.fromEntries(Object.entries(body(it)).filter(([name]) => !IGNORED.includes(name)));
  return differences(fields(left), fields(right))
    .map((it) => ({ name: nameOf(it.path), left: text(it.before), right: text(it.after) }))
    .filter((it) => blanked(it.left ?? "") !== blanked(it.right ?? ""));
}

const nameOf = (path: string): string => NAMES.find(([pattern]) => pattern.test(path))?.[1] ?? path;

const text = (value: unknown): string | undefined =>
  value == null ? undefined : typeof value === "string" ? value : JSON.stringify(value, null, 2);

/** Groups pairs by visits of nodes. Neighbouring visits that are the same are one group. */
export function grouped(pairs: Pair[]): Group[] {
  const visits: Group[] = [];
  let node = "";
  for (const pair of pairs) {
    const event = (pair.left ?? pair.right)!;
    const isStart = ["opened", "turn_started", "forked"].includes(event.kind);
    const next = isStart ? "" : ((body(event).node as string | undefined) ?? node);
    const last = visits.at(-1);
    if (!last || next !== node || event.kind === "asked") {
      visits.push({ nodes: [next || "turn"], pairs: [pair], isSame: pair.isSame });
    } else {
      last.pairs.push(pair);
      last.isSame &&= pair.isSame;
    }
    node = next;
  }
  const groups: Group[] = [];
  for (const visit of visits) {
    const last = groups.at(-1);
    if (last?.isSame && visit.isSame) {
      last.nodes.push(...visit.nodes);
      last.pairs.push(...visit.pairs);
    } else groups.push(visit);
  }
  return groups;
}
