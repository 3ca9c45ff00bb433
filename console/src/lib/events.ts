/** One-line summaries of events, as `turnfold thread events` prints them. */
import type { Schema } from "./api.ts";
import { duration, usd, spaced } from "./format.ts";

export type LogEvent = Schema<"LogEvent">;
export type Message = Schema<"Message">;

/** A JSON object of which only some fields are known. */
export type Fields = Record<string, any>;

export const body = (event: LogEvent): Fields => event.event as Fields;

/** Maximum length of a text or a JSON value within a line. */
const SHORT = 200;

export function shortened(text: string, max = SHORT): string {
  const letters = Array.from(text);
  return letters.length <= max ? text : `${letters.slice(0, max).join("")} … ${letters.length - max} more characters`;
}

const quoted = (text: string): string => `“${shortened(text).replaceAll("\n", " ⏎ ")}”`;
const json = (value: unknown): string => shortened(JSON.stringify(value) ?? "");

export function callText(name: string, given: unknown): string {
  const isObject = given !== null && typeof given === "object" && !Array.isArray(given);
  const fields = isObject
    ? Object.entries(given).map(([key, it]) => `${key}: ${JSON.stringify(it)}`)
    : given == null
      ? []
      : [JSON.stringify(given)];
  return `${name}(${shortened(fields.join(", "))})`;
}

/** The destination of a decision: the name of a node, `end`, or `a person`. */
export function destination(to: unknown): string {
  if (to === "end") return "end";
  const target = to as Fields;
  return target?.node ?? (target?.interrupt ? "a person" : "end");
}

/** A summary by the API without the spaces that align it in columns. */
export const narrow = (text: string): string => text.trim().replace(/ {2,}/g, "  ");

export interface Summary {
  label: string;
  text: string;
  details: string[];
}

/** An event as one line and its details. */
export function summaryOf(event: LogEvent): Summary {
  const it = body(event);
  const label = spaced(event.kind);
  const slot = 0 < it.slot ? `[${it.slot}] ` : "";
  const line = (text: string, details: string[] = []): Summary => ({ label, text: slot + text, details });
  switch (event.kind) {
    case "opened":
      return line(`${it.strategy} v${it.version ?? 0}${it.config ? ` · ${json(it.config)}` : ""}`, servers(it));
    case "turn_started":
      return line(`${it.kind === "answer" ? "answer · " : ""}${(it.messages ?? []).map(messageText).join(" ")}`);
    case "asked":
      return {
        label: it.node,
        text: requestText(it.requests?.[0] ?? {}),
        details: (it.requests ?? [])
          .slice(1)
          .map((request: Fields, nth: number) => `[${nth + 1}] ${requestText(request)}`),
      };
    case "attempted":
      return line(it.worker ? `by ${it.worker}` : "");
    case "answered":
      return line(responseText(it.response ?? {}) + usageText(it.usage));
    case "attempt_failed":
      return line(attemptText(it));
    case "decided":
      return decision(it);
    case "reconciled":
      return line(
        it.verdict?.happened ? `happened: ${quoted(it.verdict.happened.result ?? "")}` : spaced(String(it.verdict)),
      );
    case "input_required":
      return line(
        Object.keys(it.input_requests ?? {}).join(", ") || "to be repeated without input",
        Object.entries<Fields>(it.input_requests ?? {}).map(
          ([name, form]) => `${name}: ${quoted(form.question ?? "")}`,
        ),
      );
    case "input_provided":
      return line(`${it.name}: ${json(it.response)}`);
    case "summarised":
      return line(it.upto <= 1 ? "message 0" : `messages 0–${it.upto - 1}`);
    case "rated":
      return line(`${it.rating}${it.actor ? ` by ${it.actor}` : ""}`, it.note ? [quoted(it.note)] : []);
    case "taken_over":
      return line(
        `by ${it.worker} from ${it.from}${it.silent_ms == null ? "" : ` · silent for ${duration(it.silent_ms)}`}`,
      );
    case "task_started":
      return line(`task ${it.task}`);
    case "failed":
      return line(`${it.node}: ${it.reason}`);
    case "retried":
    case "cancelled":
      return line(it.actor ? `by ${it.actor}` : "");
    case "write_ended":
      return line(`after event ${it.attempted}: ${spaced(it.ending)}`, it.text ? [quoted(it.text)] : []);
    case "forked":
      return line(
        `after event ${it.seq} of ${it.thread}`,
        [
          it.config ? `config ${json(it.config)}` : "",
          ...(it.facts ?? []).map((fact: unknown) => `fact ${json(fact)}`),
        ].filter(Boolean),
      );
    default:
      return line(it.reason ?? json(it));
  }
}

function servers(it: Fields): string[] {
  return Object.entries(it.servers ?? {}).map(([name, description]) => `server ${name}: ${description}`);
}

function decision(it: Fields): Summary {
  const outcome = it.outcome ? ` · ${outcomeText(it.outcome)}` : "";
  const asked = it.to?.interrupt as Fields | undefined;
  const details = [
    it.reason ? `because ${it.reason}` : "",
    ...(it.messages ?? []).map((message: Message) => `message ${messageText(message)}`),
    ...(it.facts ?? []).map((fact: unknown) => `fact ${json(fact)}`),
    asked ? `asks for ${spaced(asked.kind)}: ${quoted(asked.question ?? "")}` : "",
    ...(asked?.options ?? []).map((option: string, nth: number) => `  ${nth + 1}. ${option}`),
    asked ? `answer goes to ${asked.resume}` : "",
  ];
  return { label: it.node, text: `→ ${destination(it.to)}${outcome}`, details: details.filter(Boolean) };
}

export function outcomeText(outcome: unknown): string {
  if (typeof outcome === "string") return outcome;
  const { kind, causes } = outcome as Fields;
  return [
    kind,
    (causes ?? []).map((cause: unknown) => (typeof cause === "string" ? cause : JSON.stringify(cause))).join("; "),
  ]
    .filter(Boolean)
    .join(": ");
}

export function messageText(message: Fields): string {
  const calls = (message.tool_calls ?? []).map((call: Fields) => callText(call.name, call.arguments));
  const files = (message.attachments ?? []).map((it: Fields) => `${it.kind} ${it.name ?? ""}`);
  const isText = message.content || !(calls.length + files.length);
  return `${message.role}: ${[...(isText ? [quoted(message.content ?? "")] : []), ...files, ...calls].join(" + ")}`;
}

export function requestText(it: Fields): string {
  switch (it.request) {
    case "chat":
      return chatText(it);
    case "list_tools":
      return `list tools of ${it.server}`;
    case "list_prompts":
      return `list prompts of ${it.server}`;
    case "call_tool":
      return callText(`${it.server}.${it.call?.name}`, it.call?.arguments);
    case "read_more":
      return callText(it.call?.name, it.call?.arguments);
    case "get_prompt":
      return callText(`get prompt ${it.server}.${it.name}`, it.arguments ?? {});
    case "describe":
      return `describe ${it.server}`;
    case "search":
      return `search index: ${quoted(it.query ?? "")} · at most ${it.limit} servers`;
    case "index":
      return `update index: ${Object.keys(it.servers ?? {}).length} servers`;
    case "simulate":
      return [
        "simulate",
        it.wait_ms ? `wait ${it.wait_ms} ms` : "",
        it.failures ? `fail ${it.failures} times` : "",
        it.error ? `fail with ${quoted(it.error)}` : "",
        it.text ? `echo ${quoted(it.text)}` : "",
      ]
        .filter(Boolean)
        .join(" · ");
    default:
      return json(it);
  }
}

function chatText(it: Fields): string {
  const { start = 0, end = 0 } = it.context ?? {};
  const range = end <= start ? "no messages" : end - start === 1 ? `message ${start}` : `messages ${start}–${end - 1}`;
  const tools = [...(it.tool_servers ?? []).map((server: string) => `${server}.*`), ...(it.tools ?? [])];
  return [
    `chat ${it.model}`,
    it.summarised ? "summary" : "",
    range,
    tools.length ? `tools ${tools.join(", ")}` : "",
    it.response_schema ? `answer as ${it.response_schema}` : "",
    it.web_search ? "web search" : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

function responseText(it: Fields): string {
  switch (it.response) {
    case "reply":
      return [
        ...(it.content || !it.tool_calls?.length ? [quoted(it.content ?? "")] : []),
        ...(it.tool_calls ?? []).map((call: Fields) => callText(call.name, call.arguments)),
      ].join(" + ");
    case "output":
      return `${it.status && it.status !== "ok" ? `${spaced(String(it.status))}: ` : ""}${quoted(it.text ?? "")}`;
    case "tools":
      return `tools ${(it.tools ?? []).map((tool: Fields) => tool.name).join(", ") || "none"}`;
    case "tools_unchanged":
      return "tools unchanged";
    case "prompts":
      return `prompts ${(it.prompts ?? []).map((prompt: Fields) => prompt.name).join(", ") || "none"}`;
    case "prompt":
      return `prompt ${(it.messages ?? []).map(messageText).join(" ")}`;
    case "search_results":
      return `found ${(it.hits ?? []).map((hit: Fields) => hit.server).join(", ") || "none"}`;
    case "echo":
      return quoted(it.text ?? "");
    case "unavailable":
      return `no answer: ${it.reason}`;
    default:
      return json(it);
  }
}

function usageText(it?: Fields): string {
  if (!it) return "";
  const tokens = (it.input_tokens ?? 0) + (it.output_tokens ?? 0);
  return [
    ` · ${duration(it.duration_ms ?? 0)}`,
    tokens ? ` · ${it.input_tokens ?? 0} + ${it.output_tokens ?? 0} tokens` : "",
    it.micro_usd ? ` · ${usd(it.micro_usd / 1e6)}` : "",
  ].join("");
}

function attemptText(it: Fields): string {
  if (it.context_tokens) return `${it.error} · to be asked again with at most ${it.context_tokens} tokens`;
  if (it.retry_after_ms == null) return `${it.error} · not retried automatically`;
  if (it.waiting) return `${it.error} · waiting for it`;
  const next = it.retry_after_ms ? `next try in ${duration(it.retry_after_ms)}` : "next try at once";
  return `${it.error}${it.in_doubt ? " · may have taken effect, safe to repeat" : ""} · ${next}`;
}
