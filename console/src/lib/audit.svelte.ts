/** An audit of all threads, read page by page while the view is open. */
import type { Schema } from "./api.ts";
import { Walk } from "./walk.svelte.ts";

/** Maximum number of findings of one kind that are kept. */
const KEPT = 500;

export class Audit extends Walk<Schema<"AuditPage">> {
  threads = $state(0);
  events = $state(0);
  diverged = $state(0);
  broken = $state.raw<Schema<"BrokenChain">[]>([]);
  clusters = $state.raw<Schema<"DivergenceCluster">[]>([]);
  notChecked = $state.raw<Schema<"NotReplayed">[]>([]);

  constructor() {
    super("/v1/audit/threads");
  }

  /** Starts from the newest thread. */
  run(prompts: boolean): void {
    [this.threads, this.events, this.diverged] = [0, 0, 0];
    [this.broken, this.clusters, this.notChecked] = [[], [], []];
    this.begin({ prompts: prompts || undefined });
  }

  protected add(page: Schema<"AuditPage">): void {
    this.threads += page.threads;
    this.events += page.events;
    this.diverged += page.diverged;
    this.broken = [...this.broken, ...page.broken].slice(0, KEPT);
    this.notChecked = [...this.notChecked, ...page.not_checked].slice(0, KEPT);
    this.clusters = merged(this.clusters, page.clusters);
  }
}

/** Adds clusters of the same place. Threads come newest first, so the later example is the older one. */
export function merged(
  all: Schema<"DivergenceCluster">[],
  more: Schema<"DivergenceCluster">[],
): Schema<"DivergenceCluster">[] {
  const places = new Map<string, Schema<"DivergenceCluster">>();
  for (const it of [...all, ...more]) {
    const place = JSON.stringify([it.strategy, it.node, it.field]);
    const threads = it.threads + (places.get(place)?.threads ?? 0);
    places.set(place, { ...it, threads });
  }
  return [...places.values()].sort((a, b) => b.threads - a.threads);
}
