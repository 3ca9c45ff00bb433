/** A run as one HTML page that needs no network: conversation, timeline, state at any event, and the proof of its log. */
import { get, request, type Schema } from "../lib/api.ts";
import { callText, summaryOf, type LogEvent } from "../lib/events.ts";
import { absolute, cost, duration, many, millis, number } from "../lib/format.ts";
import { redacted } from "./redact.ts";
import { added } from "../lib/origins.ts";
import { parsePrintable } from "../lib/printable.ts";
import { turnsOf } from "../lib/timeline.ts";
import { USES, type Timeline } from "../lib/waterfall.ts";
import script from "./script.js?raw";
import style from "./page.css?raw";

type Thread = Schema<"Thread">;

/** A line of an exported log; `at` is in microseconds. */
interface Line {
  seq: number;
  at: number;
  kind: string;
  payload: string;
  hash: string;
}
interface Attachment {
  sha256: string;
  content: string;
}

const WHOLE = `The hashes cover the stored bytes, which each event shows when it is opened. The lines above them are summaries, made when
this page was saved.`;
const REDACTED = `Messages, prompts, arguments and results of tools, facts, reasons and names of people were left out when this page was
saved, and all hashes but the last, as contents could be guessed by them. The last hash covers all events with their contents.`;

/** Events whose states are in a page, and requests for them at the same time. */
const MAX_STATES = 1_000;
const AT_ONCE = 6;
/** Turns at the end of a log of which the uses of their time are in a page. */
const MAX_TURNS = 100;
/** Largest log of which a page is made, in bytes. */
const MAX_BYTES = 32 * 1_048_576;

/** `isRedacted` leaves out all contents, so that the hashes can no longer be verified in the page. */
export async function runPage(id: string, isRedacted: boolean): Promise<Blob> {
  const thread = await get<Thread>(`/v1/threads/${id}`);
  const file = await (await request("GET", `/v1/threads/${id}/export`)).blob();
  if (MAX_BYTES < file.size) throw new Error(`The log has more than ${MAX_BYTES / 1_048_576} MiB. Export it instead.`);
  const lines = (await file.text())
    .split("\n")
    .filter(Boolean)
    .map((it) => JSON.parse(it) as Line & Attachment);
  const log = lines.filter((it) => it.hash);
  const events = eventsOf(log);
  const times = await timesOf(events);
  if (isRedacted) {
    // The hash of an event with few possible contents tells which one it has. The last hash covers the contents of all events.
    const without = log.map((it, nth) => ({
      ...it,
      payload: JSON.stringify(redacted(JSON.parse(it.payload))),
      hash: nth + 1 < log.length ? "" : it.hash,
    }));
    return new Blob([document(thread, without, [], [[0]], times, true)], { type: "text/html" });
  }
  const states: [number, unknown?][] = await statesOf(id, Math.min(log.length, MAX_STATES));
  // An entry without a state: those from here on are not in the page.
  if (MAX_STATES < log.length) states.push([MAX_STATES]);
  const attachments = lines.filter((it) => it.sha256);
  return new Blob([document(thread, log, attachments, states, times, false)], { type: "text/html" });
}

const eventsOf = (log: Line[]): LogEvent[] =>
  log.map((it) => ({
    seq: it.seq,
    at: new Date(it.at / 1_000).toISOString(),
    kind: it.kind,
    event: parsePrintable(it.payload) as LogEvent["event"],
  }));

/** The uses of the time of the last turns, by their ids. A turn that was copied with its log has none. */
async function timesOf(events: LogEvent[]): Promise<Map<string, Timeline>> {
  const ids = turnsOf(events)
    .map((it) => it.id)
    .filter((it) => /[1-9a-f]/.test(it))
    .slice(-MAX_TURNS);
  const times = new Map<string, Timeline>();
  const work = async () => {
    for (let id = ids.pop(); id; id = ids.pop()) {
      const time = await get<Timeline>(`/v1/turns/${id}/timeline`).catch(() => undefined);
      if (time) times.set(id, time);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return times;
}

/** The duration of a turn and its uses, which add up to it. */
function took(time: Timeline | undefined, ms: number): string {
  if (!time?.totals.length) return `turn of ${duration(ms)}`;
  const uses = time.totals.map((it) => `${USES[it.kind]} ${duration(it.ms)}`).join(", ");
  const taken = time.takeovers.map((it) => `; ${it.worker} took over from ${it.from} after ${duration(it.at_ms)}`);
  return `turn of ${duration(time.ms)}: ${uses}${taken.join("")}`;
}

/** The state after each event, if it is not that of the event before. */
async function statesOf(id: string, count: number): Promise<[number, unknown][]> {
  const states: unknown[] = [];
  let next = 0;
  const work = async () => {
    for (let at = next++; at < count; at = next++) {
      states[at] = (await get<Schema<"ThreadState">>(`/v1/threads/${id}/state`, { at, messages: 0 })).state;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const texts = states.map((it) => JSON.stringify(it));
  return states.flatMap((it, at): [number, unknown][] => (texts[at] === texts[at - 1] ? [] : [[at, it]]));
}

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

/** A value for a script of the page to read. No text in it ends the element. */
const embedded = (name: string, value: unknown): string =>
  `<script type="application/json" id="${name}">${JSON.stringify(value).replaceAll("<", "\\u003c")}</script>`;

function document(
  thread: Thread,
  log: Line[],
  attachments: Attachment[],
  states: [number, unknown?][],
  times: Map<string, Timeline>,
  isRedacted: boolean,
): string {
  const events = eventsOf(log);
  const title = `${thread.strategy} ${thread.id}`;
  const outcome = thread.log_status === "idle" ? (thread.outcome ?? "idle") : thread.log_status;
  const rows = log.map((it) => [it.seq, it.at, it.kind, it.payload, it.hash]);
  return `<!doctype html>
<html lang="en"${isRedacted ? " data-redacted" : ""}>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>${escaped(title)}</title>
<style>${style}</style>
<header>
<h1>${escaped(thread.strategy)} <span class="mono muted">${thread.id}</span></h1>
<p class="muted">${outcome} · created ${absolute(millis(thread.created_at))} · ${many(log.length, "event")} ·
${number(thread.usage.input_tokens + thread.usage.output_tokens)} tokens · ${cost(thread.usage)} ·
${duration(thread.usage.ms)} in models and tools</p>
</header>
<nav aria-label="Position in the log"><input type="range" min="0" max="${log.length - 1}" aria-label="Event">
<span id="place"></span></nav>
<main>
<section><h2>Conversation</h2><ol>${added(events).map(message).join("")}</ol>
<h2>State after the event</h2><pre id="state"></pre></section>
<section><h2>Proof</h2><p id="proof" role="status">The hash chain is being verified.</p>
<p class="muted">${isRedacted ? REDACTED : WHOLE} Compare the hash of the last event with a signed checkpoint, which is kept elsewhere:</p>
<p class="mono">${log.at(-1)?.hash ?? ""}</p>
<h2>Timeline</h2><ol>${timeline(events, times)}</ol></section>
</main>
${embedded("log", rows)}${embedded("states", states)}${embedded("attachments", attachments)}
<script>${script.replaceAll("</script", "<\\/script")}</script>
</html>
`;
}

function message({ event, message: it }: ReturnType<typeof added>[number]): string {
  const calls = (it.tool_calls ?? []).map((call) => callText(call.name, call.arguments));
  const text = [it.content, ...calls].filter(Boolean).join("\n");
  return `<li class="message" data-seq="${event.seq}"><strong>${escaped(it.role)}</strong>
<button data-to="${event.seq}">event ${event.seq}</button><pre dir="auto">${escaped(text)}</pre></li>`;
}

function timeline(events: LogEvent[], times: Map<string, Timeline>): string {
  return turnsOf(events)
    .flatMap((turn) => [
      ...(turn.start ? [line(turn.start, took(times.get(turn.id), turn.to - turn.from))] : []),
      ...turn.other.map((it) => line(it)),
      ...turn.visits.flatMap((visit) =>
        visit.events.map((it, nth) => line(it, nth || visit.events.length < 2 ? "" : duration(visit.to - visit.from))),
      ),
      ...turn.ratings.map((it) => line(it)),
    ])
    .join("");
}

function line(event: LogEvent, note = ""): string {
  const it = summaryOf(event);
  const details = it.details.map((detail) => `<div class="muted" dir="auto">${escaped(detail)}</div>`).join("");
  return `<li class="event" data-seq="${event.seq}"><button data-to="${event.seq}">${event.seq}</button>
<details><summary><strong>${escaped(it.label)}</strong> <span dir="auto">${escaped(it.text)}</span>
<span class="muted">${escaped(note)}</span>${details}</summary><pre></pre></details></li>`;
}
