/** Data of the API that a view shows: loaded, polled while the page is visible, and loaded again after a failure. */
import { ApiError, get, type Page, type Query } from "./api.ts";
import { app } from "./app.svelte.ts";

export class Resource<Value> {
  value = $state.raw<Value>();
  error = $state.raw<ApiError>();
  isLoading = $state(true);
  /** Loads again now. */
  refresh: () => void = () => {};
}

type Load<Value> = (signal: AbortSignal) => Promise<Value>;

/** Longest pause between attempts while the API does not answer. */
const MAX_BACKOFF = 15_000;

/**
 * Loads now, and again whenever state changes that `prepare` reads. With `every`, polls at that interval in milliseconds
 * while the page is visible. A null value ends the polling.
 */
export function load<Value>(prepare: () => Load<Value> | undefined, every = 0): Resource<Value> {
  const resource = new Resource<Value>();
  let last: unknown;
  $effect(() => {
    void app.generation;
    const next = prepare();
    if (!next) return;
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    // One request at a time: a refresh during a request causes one more after it.
    let [isRunning, isStale] = [false, false];
    const run = async () => {
      clearTimeout(timer);
      isStale = isRunning;
      if (isRunning) return;
      isRunning = true;
      try {
        const value = await next(controller.signal);
        if (controller.signal.aborted) return;
        const text = JSON.stringify(value);
        if (text !== last) resource.value = value;
        [last, resource.error, failures] = [text, undefined, 0];
      } catch (error) {
        if (controller.signal.aborted) return;
        resource.error = error instanceof ApiError ? error : new ApiError(0, String(error));
        failures += 1;
      }
      [resource.isLoading, isRunning] = [false, false];
      if (isStale) return run();
      const isWorthRetrying = resource.error?.status === 0 || (resource.error?.status ?? 0) >= 500;
      // A refusal or a missing object stays so until the next sign-in.
      const isFinal = resource.value === null || [401, 403, 404].includes(resource.error?.status ?? 0);
      const pause = isWorthRetrying ? Math.min(1_000 * 2 ** failures, MAX_BACKOFF) : isFinal ? 0 : every;
      if (pause && !document.hidden) timer = setTimeout(run, pause);
    };
    const resume = () => {
      if (!document.hidden && every) void run();
    };
    resource.refresh = () => void run();
    document.addEventListener("visibilitychange", resume);
    void run();
    return () => {
      controller.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", resume);
    };
  });
  return resource;
}

interface Keyed {
  id: string;
}

/** A list that is loaded page by page and whose first page is polled. */
export class Pages<Item extends Keyed> {
  items = $state.raw<Item[]>([]);
  hasMore = $state(false);
  isBusy = $state(false);
  first: Resource<Page<Item>>;
  private shown = "";

  constructor(
    private path: string,
    private query: () => Query,
    private size = 50,
    every = 4_000,
  ) {
    this.first = load(() => {
      const current = query();
      return async (signal) => {
        const page = await get<Page<Item>>(path, { ...current, limit: size }, signal);
        this.merge(page, JSON.stringify(current));
        return page;
      };
    }, every);
  }

  /** Loads the next page. */
  async more(): Promise<void> {
    if (this.isBusy || !this.hasMore) return;
    this.isBusy = true;
    const query = this.query();
    const shown = this.shown;
    try {
      const page = await get<Page<Item>>(this.path, { ...query, limit: this.size, after: this.items.at(-1)?.id });
      if (shown !== this.shown) return;
      const known = new Set(this.items.map((it) => it.id));
      this.items = [...this.items, ...page.data.filter((it) => !known.has(it.id))];
      this.hasMore = page.has_more;
    } catch (error) {
      this.first.error = error instanceof ApiError ? error : new ApiError(0, String(error));
    } finally {
      this.isBusy = false;
    }
  }

  /** Replaces the beginning of the list. What was loaded beyond the first page stays. */
  private merge(page: Page<Item>, shown: string): void {
    const isSame = shown === this.shown;
    this.shown = shown;
    const fresh = new Set(page.data.map((it) => it.id));
    const last = page.data.at(-1)?.id;
    const end = isSame && last ? this.items.findIndex((it) => it.id === last) : -1;
    const rest = end < 0 ? [] : this.items.slice(end + 1).filter((it) => !fresh.has(it.id));
    this.items = [...page.data, ...rest];
    if (!rest.length) this.hasMore = page.has_more;
  }
}
