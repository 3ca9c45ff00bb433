/** Money and time of the turns of a period, read page by page while the view is open. */
import { ApiError, get, type Schema } from "./api.ts";
import type { Use } from "./waterfall.ts";

type Page = Schema<"CostPage">;
export type Group = Schema<"CostGroup">;
export type By = Schema<"CostBy">;
export type TurnCost = Schema<"TurnCost">;

/** Events after which reading continues only on demand. */
const MAX_EVENTS = 200_000;
/** Number of turns in each list. */
export const TOP = 10;

export class Costs {
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
  isRunning = $state(false);
  isDone = $state(false);
  error = $state.raw<ApiError>();
  private controller?: AbortController;
  private since?: string;
  private after?: string;

  /** Starts from the newest thread. */
  start(since?: string): void {
    [this.since, this.after, this.isDone] = [since, undefined, false];
    [this.threads, this.turns, this.ms, this.takeovers] = [0, 0, 0, 0];
    [this.time, this.groups, this.dearest, this.slowest] = [{}, [], [], []];
    [this.failed, this.lost] = [
      { attempts: 0, ms: 0 },
      { attempts: 0, ms: 0 },
    ];
    void this.continue();
  }

  /** Reads on from where it stopped. */
  async continue(): Promise<void> {
    this.stop();
    const controller = (this.controller = new AbortController());
    [this.isRunning, this.error] = [true, undefined];
    try {
      for (let events = 0; events < MAX_EVENTS;) {
        const query = { since: this.since, after: this.after, limit: 100 };
        const page = await get<Page>("/v1/costs", query, controller.signal);
        if (controller.signal.aborted) return;
        this.add(page);
        events += page.events;
        this.after = page.next ?? undefined;
        if (!page.next) {
          this.isDone = true;
          break;
        }
      }
    } catch (error) {
      if (controller.signal.aborted) return;
      this.error = error instanceof ApiError ? error : new ApiError(0, String(error));
    }
    this.isRunning = false;
  }

  stop(): void {
    this.controller?.abort();
    this.isRunning = false;
  }

  private add(page: Page): void {
    this.threads += page.threads;
    this.turns += page.turns;
    this.ms += page.ms;
    this.takeovers += page.takeovers;
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
