/** An audit of all threads, read page by page while the view is open. */
import { ApiError, get, type Schema } from "./api.ts";

/** Maximum number of findings of one kind that are kept. */
const KEPT = 500;

export class Audit {
  threads = $state(0);
  events = $state(0);
  diverged = $state(0);
  broken = $state.raw<Schema<"BrokenChain">[]>([]);
  clusters = $state.raw<Schema<"DivergenceCluster">[]>([]);
  notChecked = $state.raw<Schema<"NotReplayed">[]>([]);
  isRunning = $state(false);
  isDone = $state(false);
  error = $state.raw<ApiError>();
  private controller?: AbortController;

  /** Starts from the newest thread. */
  async run(prompts: boolean): Promise<void> {
    this.stop();
    const controller = new AbortController();
    this.controller = controller;
    [this.threads, this.events, this.diverged] = [0, 0, 0];
    [this.broken, this.clusters, this.notChecked] = [[], [], []];
    [this.isRunning, this.isDone, this.error] = [true, false, undefined];
    try {
      for (let after: string | undefined; ;) {
        const query = { after, limit: 100, prompts: prompts || undefined };
        const page = await get<Schema<"AuditPage">>("/v1/audit/threads", query, controller.signal);
        if (controller.signal.aborted) return;
        this.add(page);
        if (!page.next) break;
        after = page.next;
      }
      this.isDone = true;
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

  private add(page: Schema<"AuditPage">): void {
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
