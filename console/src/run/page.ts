/** A run as one HTML page that needs no network: conversation, timeline, state at any event, and the proof of its log. */
import { get, request, type Schema } from "../lib/api.ts";
import { callText, summaryOf, type LogEvent } from "../lib/events.ts";
import { absolute, cost, duration, many, millis, number } from "../lib/format.ts";
import { added } from "../lib/origins.ts";
import { parsePrintable } from "../lib/printable.ts";
import { turnsOf } from "../lib/timeline.ts";
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

/** Events whose states are in a page, and requests for them at the same time. */
const MAX_STATES = 1_000;
const AT_ONCE = 6;
/** Largest log of which a page is made, in bytes. */
const MAX_BYTES = 32 * 1_048_576;

export async function runPage(id: string): Promise<Blob> {
  const thread = await get<Thread>(`/v1/threads/${id}`);
  const file = await (await request("GET", `/v1/threads/${id}/export`)).blob();
  if (MAX_BYTES < file.size) throw new Error(`The log has more than ${MAX_BYTES / 1_048_576} MiB. Export it instead.`);
  const lines = (await file.text())
    .split("\n")
    .filter(Boolean)
    .map((it) => JSON.parse(it) as Line & Attachment);
  const log = lines.filter((it) => it.hash);
  const states: [number, unknown?][] = await statesOf(id, Math.min(log.length, MAX_STATES));
  // An entry without a state: those from here on are not in the page.
  if (MAX_STATES < log.length) states.push([MAX_STATES]);
  const attachments = lines.filter((it) => it.sha256);
  return new Blob([document(thread, log, attachments, states)], { type: "text/html" });
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

function document(thread: Thread, log: Line[], attachments: Attachment[], states: [number, unknown?][]): string {
  const events = log.map((it): LogEvent => ({
    seq: it.seq,
    at: new Date(it.at / 1_000).toISOString(),
    kind: it.kind,
    event: parsePrintable(it.payload) as LogEvent["event"],
  }));
  const title = `${thread.strategy} ${thread.id}`;
  const outcome = thread.log_status === "idle" ? (thread.outcome ?? "idle") : thread.log_status;
  const rows = log.map((it) => [it.seq, it.at, it.kind, it.payload, it.hash]);
  return `<!doctype html>
<html lang="en">
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
<p class="muted">The hashes cover the stored bytes, which each event shows when it is opened. The lines above them are summaries, made when
this page was saved. Compare the hash of the last event with a signed checkpoint, which is kept elsewhere:</p>
<p class="mono">${log.at(-1)?.hash ?? ""}</p>
<h2>Timeline</h2><ol>${timeline(events)}</ol></section>
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

function timeline(events: LogEvent[]): string {
  return turnsOf(events)
    .flatMap((turn) => [
      ...(turn.start ? [line(turn.start, `turn of ${duration(turn.to - turn.from)}`)] : []),
      ...turn.other.map((it) => line(it)),
      ...turn.visits.flatMap((visit) =>
        visit.events.map((it, nth) => line(it, nth || visit.events.length < 2 ? "" : duration(visit.to - visit.from))),
      ),
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
