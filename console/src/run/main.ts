/** A saved run: builds its page from the data within it. This script is part of the file. */
import type { Schema } from "../lib/api.ts";
import { callText, summaryOf, type LogEvent } from "../lib/events.ts";
import { absolute, cost, duration, many, millis, number } from "../lib/format.ts";
import { added } from "../lib/origins.ts";
import { parsePrintable } from "../lib/printable.ts";
import { turnsOf } from "../lib/timeline.ts";
import { USES } from "../lib/waterfall.ts";
import { behave, type Attachment, type Row, type State } from "./behaviour.ts";

type Thread = Pick<Schema<"Thread">, "id" | "strategy" | "created_at" | "log_status" | "outcome" | "usage">;
type Time = Pick<Schema<"TurnTimeline">, "ms" | "totals" | "takeovers">;

/** The data of a run, as `GET /v1/threads/{id}/page` writes it. */
interface Run {
  thread: Thread;
  is_redacted: boolean;
  log: Row[];
  attachments: Attachment[];
  states: State[];
  times: Record<string, Time | undefined>;
}

const WHOLE = `The hashes cover the stored bytes, which each event shows when it is opened. The lines above them are summaries.`;
const REDACTED = `Messages, prompts, arguments and results of tools, facts, reasons and names of people were left out when this page was
saved, and all hashes but the last, as contents could be guessed by them. The last hash covers all events with their contents.`;

/** The fields of an event; none if its bytes are no JSON object. */
function fieldsOf(payload: string): LogEvent["event"] {
  try {
    const value = parsePrintable(payload);
    return (value !== null && typeof value === "object" ? value : {}) as LogEvent["event"];
  } catch {
    return {} as LogEvent["event"];
  }
}

const eventsOf = (log: Row[]): LogEvent[] =>
  log.map(([seq, at, kind, payload]) => ({
    seq,
    at: new Date(at / 1_000).toISOString(),
    kind,
    event: fieldsOf(payload),
  }));

/** The duration of a turn and its uses, which add up to it. */
function took(time: Time | undefined, ms: number): string {
  if (!time?.totals.length) return `turn of ${duration(ms)}`;
  const uses = time.totals.map((it) => `${USES[it.kind]} ${duration(it.ms)}`).join(", ");
  const taken = time.takeovers.map((it) => `; ${it.worker} took over from ${it.from} after ${duration(it.at_ms)}`);
  return `turn of ${duration(time.ms)}: ${uses}${taken.join("")}`;
}

const escaped = (text = ""): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

function page({ thread, is_redacted, log, times }: Run): string {
  const events = eventsOf(log);
  const outcome = thread.log_status === "idle" ? (thread.outcome ?? "idle") : thread.log_status;
  return `<header>
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
<p class="muted">${is_redacted ? REDACTED : WHOLE} Compare the hash of the last event with a signed checkpoint, which is kept elsewhere:</p>
<p class="mono">${log.at(-1)?.[4] ?? ""}</p>
<h2>Timeline</h2><ol>${timeline(events, times)}</ol></section>
</main>`;
}

function message({ event, message: it }: ReturnType<typeof added>[number]): string {
  const calls = (it.tool_calls ?? []).map((call) => callText(call.name, call.arguments));
  const text = [it.content, ...calls].filter(Boolean).join("\n");
  return `<li class="message" data-seq="${event.seq}"><strong>${escaped(it.role)}</strong>
<button data-to="${event.seq}">event ${event.seq}</button><pre dir="auto">${escaped(text)}</pre></li>`;
}

function timeline(events: LogEvent[], times: Run["times"]): string {
  return turnsOf(events)
    .flatMap((turn) => [
      ...(turn.start ? [line(turn.start, took(times[turn.id], turn.to - turn.from))] : []),
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

const run = JSON.parse(document.getElementById("run")!.textContent) as Run;
const { thread } = parsePrintable(JSON.stringify({ thread: run.thread })) as Run;
document.title = `${thread.strategy} ${thread.id}`;
document.body.insertAdjacentHTML("afterbegin", page({ ...run, thread }));
behave(run.log, run.states, run.attachments, run.is_redacted);
