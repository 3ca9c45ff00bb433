/** Money and time of the turns of a period, read page by page while the view is open. */
import type { Schema } from "./api.ts";
import { Walk } from "./walk.svelte.ts";
import type { Use } from "./waterfall.ts";

type Page = Schema<"CostPage">;
export type Group = Schema<"CostGroup">;
export type By = Schema<"CostBy">;
export type TurnCost = Schema<"TurnCost">;

/** Events after which reading continues only on demand. */
const MAX_EVENTS = 200_000;
/** Number of turns in each list. */
export const TOP = 10;

export class Costs extends Walk<Page> {
  threads = $state(0);
  turns = $state(0);
  ms = $state(0);
  takeovers = $state(0);
  time = $state.raw<Partial<Record<Use, number>>>({});
  groups = $state.raw<Group[]>([]);
  failed = $state.raw({ attempts: 0, ms: 0 });
  lost = $state.raw({ attempts: 0, ms: 0 });
  dearest = $state.raw<TurnCost[]>([]);
  slowest = $state.raw<TurnCost[]>([]);
  /** Threads of which only the newest events are counted. */
  cut = $state.raw<string[]>([]);

  constructor() {
    super("/v1/costs", MAX_EVENTS);
  }

  /** Starts from the newest thread. */
  start(since?: string, until?: string): void {
    [this.threads, this.turns, this.ms, this.takeovers, this.cut] = [0, 0, 0, 0, []];
    [this.time, this.groups, this.dearest, this.slowest] = [{}, [], [], []];
    [this.failed, this.lost] = [
      { attempts: 0, ms: 0 },
      { attempts: 0, ms: 0 },
    ];
    this.begin({ since, until });
  }

  protected add(page: Page): void {
    this.threads += page.threads;
    this.turns += page.turns;
    this.ms += page.ms;
    this.takeovers += page.takeovers;
    this.cut = [...this.cut, ...(page.cut ?? [])];
    const time = { ...this.time };
    for (const { kind, ms } of page.time) time[kind] = (time[kind] ?? 0) + ms;
    this.time = time;
    const both = (one: typeof this.failed, other: typeof this.failed) => ({
      attempts: one.attempts + other.attempts,
      ms: one.ms + other.ms,
    });
    [this.failed, this.lost] = [both(this.failed, page.failed), both(this.lost, page.lost)];
    this.groups = added(this.groups, page.groups);
    this.dearest = top([...this.dearest, ...page.top], (it) => it.usage.usd || tokens(it) * 1e-12);
    this.slowest = top([...this.slowest, ...page.top], (it) => it.ms);
  }
}

export const tokens = (it: { usage: Schema<"Usage"> }): number => it.usage.input_tokens + it.usage.output_tokens;

/** The turns with the highest value, without those that have none. */
function top(turns: TurnCost[], value: (turn: TurnCost) => number): TurnCost[] {
  const once = [...new Map(turns.map((it) => [it.turn_id, it])).values()];
  return once
    .filter((it) => 0 < value(it))
    .sort((a, b) => value(b) - value(a))
    .slice(0, TOP);
}

/** Adds groups with the same property and value. */
export function added(all: Group[], more: Group[]): Group[] {
  const known = new Map(all.map((it) => [`${it.by} ${it.name}`, it]));
  for (const it of more) {
    const key = `${it.by} ${it.name}`;
    const old = known.get(key);
    known.set(key, old ? sum(old, it) : it);
  }
  return [...known.values()];
}

function sum(one: Group, other: Group): Group {
  const names = Object.keys(one.usage) as (keyof Schema<"Usage">)[];
  const usage = Object.fromEntries(names.map((name) => [name, (one.usage[name] ?? 0) + (other.usage[name] ?? 0)]));
  return {
    ...one,
    model_calls: one.model_calls + other.model_calls,
    tool_calls: one.tool_calls + other.tool_calls,
    usage: usage as Schema<"Usage">,
  };
}
