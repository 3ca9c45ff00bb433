/** A window of a thread's log that grows while the thread works. */
import { ApiError, errorOf, get, type Page } from "./api.ts";
import type { LogEvent } from "./events.ts";
import { follow, type StreamEvent } from "./stream.ts";

/** Number of events in a window; the API returns no more at once. */
const WINDOW = 1_000;
/** Longest pause before a stream is opened again. */
const MAX_PAUSE = 10_000;

export class Log {
  events = $state.raw<LogEvent[]>([]);
  /** Answer that a model is writing. */
  writing = $state("");
  isLoading = $state(true);
  isFollowing = $state(false);
  error = $state.raw<ApiError>();
  /** True if the window ends where the log ends. */
  isAtEnd = $state(false);
  private controller = new AbortController();
  private path: string;

  /** `grown` is called with the position of the last event after events were read. */
  constructor(
    id: string,
    private grown: (last: number) => void,
  ) {
    this.path = `/v1/threads/${id}/events`;
  }

  /** Loads the window that ends with the log, or around the event `at`, then follows the log if the window ends with it. */
  async open(length: number, at?: number): Promise<void> {
    this.close();
    const controller = (this.controller = new AbortController());
    const isOld = at !== undefined && at < length - WINDOW;
    const from = isOld ? Math.max(0, at - WINDOW / 2) : Math.max(0, length - WINDOW);
    try {
      const page = await this.page(from, controller.signal);
      this.events = page.data;
      this.isAtEnd = !page.has_more;
      this.error = undefined;
      this.report();
    } catch (error) {
      if (controller.signal.aborted) return;
      this.error = errorOf(error);
    }
    this.isLoading = false;
    if (this.isAtEnd || this.error) void this.follow(controller.signal);
  }

  /** Loads the events before the window. */
  async earlier(): Promise<void> {
    const first = this.events[0]?.seq ?? 0;
    const from = Math.max(0, first - WINDOW);
    const page = await this.page(from, this.controller.signal);
    this.events = [...page.data.filter((it) => it.seq < first), ...this.events];
  }

  close(): void {
    this.controller.abort();
    this.isFollowing = false;
  }

  private page(from: number, signal: AbortSignal): Promise<Page<LogEvent>> {
    return get(this.path, { limit: WINDOW, after: from ? from - 1 : undefined }, signal);
  }

  private async follow(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted;) {
      if (document.hidden) await visible(signal);
      const connection = new AbortController();
      const hide = () => document.hidden && connection.abort();
      const end = () => connection.abort();
      document.addEventListener("visibilitychange", hide);
      signal.addEventListener("abort", end);
      try {
        if (failures) await this.catchUp(connection.signal);
        const query = { after: this.events.at(-1)?.seq, deltas: true };
        const opened = () => ([this.isFollowing, this.error] = [true, undefined]);
        await follow(this.path, query, connection.signal, (event) => ((failures = 0), this.take(event)), opened);
      } catch (error) {
        failures += 1;
        if (error instanceof ApiError && error.status && !connection.signal.aborted) this.error = error;
      }
      this.isFollowing = false;
      this.writing = "";
      document.removeEventListener("visibilitychange", hide);
      signal.removeEventListener("abort", end);
      if ([401, 403, 404].includes(this.error?.status ?? 0)) return;
      if (!signal.aborted && !document.hidden) await pause(Math.min(500 * 2 ** failures, MAX_PAUSE), signal);
    }
  }

  /** Reads what was added while no stream was open. */
  private async catchUp(signal: AbortSignal): Promise<void> {
    const page = await this.page((this.events.at(-1)?.seq ?? -1) + 1, signal);
    page.data.forEach((it) => this.add(it));
  }

  private take(event: StreamEvent): void {
    if (event.kind === "delta") {
      this.writing += (event.data as { text: string }).text;
      return;
    }
    if (event.kind === "reset") this.writing = "";
    if (event.id !== undefined) this.add(event.data as LogEvent);
  }

  private add(event: LogEvent): void {
    if (event.seq <= (this.events.at(-1)?.seq ?? -1)) return;
    if (["decided", "failed", "cancelled"].includes(event.kind)) this.writing = "";
    this.events = [...this.events, event];
    this.report();
  }

  private report(): void {
    const last = this.events.at(-1);
    if (last) this.grown(last.seq);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

function visible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check, { once: true });
  });
}
