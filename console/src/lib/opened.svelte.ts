/** One thread as a view shows it: its row is polled, its log is a stream. Where the row is behind the log, the log counts. */
import { untrack } from "svelte";
import { get, type Schema } from "./api.ts";
import { body, destination, type LogEvent, type Message } from "./events.ts";
import { load, type Resource } from "./load.svelte.ts";
import { Log } from "./log.svelte.ts";
import { added, originsOf } from "./origins.ts";
import { refine, route } from "./route.svelte.ts";

type Thread = Schema<"Thread">;
type Standing = Pick<Thread, "log_status" | "outcome">;

/** Delay between an event and the next request for the row, so that a burst of events costs one request. */
const DELAY = 300;
/** Interval at which the row is polled: usually, and while it is behind the log. */
const EVERY = 15_000;
const BEHIND = 1_000;

export class OpenThread {
  row: Resource<Thread>;
  log: Log;
  /** Number of events, as far as the row and the log know. */
  length = $state(0);
  /** The end of the conversation. */
  messages = $state.raw<Message[]>([]);
  /** Number of messages before it. */
  start = $state(0);
  last = $derived(Math.max(0, this.length - 1));
  /** The chosen event; undefined for the last one. */
  at = $derived(
    route.query.at === undefined ? undefined : Math.min(Number(route.query.at) || 0, this.last || Infinity),
  );
  /** True if the page shows the thread as it was at an earlier event. */
  isPast = $derived(this.at !== undefined && this.at < this.last);
  /** The events up to the chosen one. */
  upto = $derived.by(() =>
    this.at === undefined ? this.log.events : this.log.events.filter((it) => it.seq <= this.at!),
  );
  isBehind = $derived.by(() => this.row.value !== undefined && this.row.value.events < this.length);
  /** Status and outcome after the last event. */
  standing = $derived.by((): Standing => {
    const last = this.log.events.at(-1);
    const newer = this.isBehind && this.log.isAtEnd && last ? standingAfter(last) : undefined;
    return newer ?? this.row.value!;
  });
  private isLoaded = $derived.by(() => this.row.value !== undefined);
  private window = $derived.by(() => added(this.log.events));
  private counted: Resource<{ first: number; messages: number }>;
  private reached: Resource<{ at: number; messages: number }>;
  /** The event that added each message, as far as it is known. */
  origins = $derived.by(() => originsOf(this.messages, this.start, this.window, this.before()));
  /** Number of messages that the conversation had after the chosen event. */
  private spoken = $derived.by(() => (this.reached.value?.at === this.at ? this.reached.value?.messages : undefined));
  private timer?: ReturnType<typeof setTimeout>;

  constructor(private id: string) {
    const path = `/v1/threads/${id}`;
    this.row = load(
      () => (signal) => get<Thread>(path, {}, signal),
      () => (this.isBehind ? BEHIND : EVERY),
    );
    this.log = new Log(id, (last) => this.grow(last + 1));
    const messagesAt = async (at: number, signal: AbortSignal) =>
      (await get<Schema<"ThreadState">>(`${path}/state`, { at, messages: 0 }, signal)).first_message;
    this.counted = load(() => {
      const first = this.log.events[0]?.seq ?? 0;
      if (!first || this.log.isAtEnd) return undefined;
      return async (signal) => ({ first, messages: await messagesAt(first - 1, signal) });
    });
    this.reached = load(() => {
      const at = this.at;
      if (at === undefined || this.origins.every(Boolean)) return undefined;
      return async (signal) => ({ at, messages: await messagesAt(at, signal) });
    });
    $effect(() => {
      if (!this.isLoaded) return;
      untrack(() => void this.log.open(Math.max(this.length, this.row.value!.events), this.at));
      return () => this.log.close();
    });
    $effect(() => {
      const row = this.row.value;
      if (row) untrack(() => this.take(row));
    });
    $effect(() => {
      const at = this.at;
      untrack(() => this.reach(at));
    });
  }

  choose = (seq: number | undefined): void => refine({ at: seq === undefined || seq >= this.last ? undefined : seq });

  /** Reports whether a message came after the chosen event. */
  isLater(nth: number): boolean {
    if (!this.isPast) return false;
    if (this.spoken !== undefined) return this.spoken <= this.start + nth;
    const origin = this.origins[nth];
    return origin !== undefined && this.at! < origin.seq;
  }

  /** Loads messages before those that are shown. */
  async earlier(): Promise<void> {
    const page = await get<Thread>(`/v1/threads/${this.id}`, { before: this.start, messages: 100 });
    if (page.first_message + page.messages.length !== this.start) return;
    [this.messages, this.start] = [[...page.messages, ...this.messages], page.first_message];
  }

  /** Number of messages of the conversation before the window of the log. */
  private before(): number {
    const first = this.log.events[0]?.seq ?? 0;
    if (!first) return 0;
    if (this.log.isAtEnd) return this.start + this.messages.length - this.window.length;
    return this.counted.value?.first === first ? this.counted.value.messages : Infinity;
  }

  private grow(length: number): void {
    this.length = Math.max(this.length, length);
    if (!this.isBehind) return;
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.row.refresh();
    }, DELAY);
  }

  private take(row: Thread): void {
    this.length = Math.max(this.length, row.events);
    const isAdjacent = this.start <= row.first_message && row.first_message <= this.start + this.messages.length;
    if (!isAdjacent) this.start = row.first_message;
    const kept = isAdjacent ? this.messages.slice(0, row.first_message - this.start) : [];
    this.messages = [...kept, ...row.messages];
  }

  /** Moves the window of the log to the chosen event. */
  private reach(at: number | undefined): void {
    const { events, isAtEnd, isLoading } = this.log;
    const isInside = at === undefined ? isAtEnd : (events[0]?.seq ?? 0) <= at && at <= (events.at(-1)?.seq ?? 0);
    if (!isLoading && !isInside) void this.log.open(this.length, at);
  }
}

/** Status of a thread whose log ends with this event; undefined if the event alone does not say. Its outcome is that of all decisions. */
function standingAfter(event: LogEvent): Standing | undefined {
  const it = body(event);
  switch (event.kind) {
    case "decided": {
      const to = destination(it.to);
      if (to === "a person") return { log_status: "waiting" };
      return { log_status: to === "end" ? "idle" : "busy" };
    }
    case "failed":
      return { log_status: "failed" };
    case "cancelled":
      return { log_status: "idle" };
    case "turn_started":
    case "asked":
    case "attempted":
    case "answered":
    case "attempt_failed":
    case "retried":
      return { log_status: "busy" };
    default:
      return undefined;
  }
}
