/** Results of the lines of a batch. */
import type { Schema } from "./api.ts";
import type { Fields } from "./events.ts";
import { millis } from "./format.ts";

/** One result as far as lists, searches and comparisons need it. */
export interface Line {
  /** Number of the result. */
  n: number;
  /** Id of the line: a line that ran again has several results with it. */
  id: string;
  name: string;
  thread?: string;
  status: string;
  outcome?: string;
  text: string;
  usd: number;
  tokens: number;
  /** End of its turn in milliseconds; 0 if it did not run. */
  at: number;
}

export function compact(it: Schema<"BatchResult">): Line {
  const body = (it.response?.body ?? {}) as Fields;
  const isBad = it.error || 400 <= (it.response?.status_code ?? 200);
  const text =
    it.error?.message ??
    body.output?.reply ??
    body.choices?.[0]?.message?.content ??
    body.error?.message ??
    body.error ??
    body.cause ??
    "";
  return {
    n: it.n ?? 0,
    id: it.id,
    name: it.custom_id ?? it.id,
    thread: it.turnfold?.thread_id,
    status: body.status ?? (isBad ? "failed" : "completed"),
    outcome: body.outcome ?? undefined,
    text: typeof text === "string" ? text : JSON.stringify(text),
    usd: it.turnfold?.usd ?? 0,
    tokens: (it.turnfold?.input_tokens ?? 0) + (it.turnfold?.output_tokens ?? 0),
    at: it.turnfold ? millis(it.turnfold.ended_at) : 0,
  };
}

/** The end of a line in one word: its outcome if it has one. */
export const endOf = (it: Line): string => it.outcome ?? it.status;

/** Reports whether a line has all these words in its name or its text. */
export function matches(it: Line, words: string): boolean {
  const text = `${it.name}\n${it.text}`.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

export interface Bucket {
  at: number;
  done: number;
  failed: number;
  usd: number;
}

/** Lines by the time of their end, in at most `most` intervals of equal length. Times are in seconds. */
export function byTime(lines: Line[], most = 60): Bucket[] {
  const ended = lines.filter((it) => it.at);
  if (!ended.length) return [];
  let [first, last] = [Infinity, 0];
  for (const it of ended) [first, last] = [Math.min(first, it.at), Math.max(last, it.at)];
  const step = Math.max(1, Math.ceil((last - first + 1) / 1_000 / most));
  const start = Math.floor(first / 1_000);
  const count = Math.floor((last / 1_000 - start) / step) + 1;
  const buckets = Array.from({ length: count }, (_, nth) => ({ at: start + nth * step, done: 0, failed: 0, usd: 0 }));
  for (const it of ended) {
    const bucket = buckets[Math.floor((it.at / 1_000 - start) / step)];
    bucket.done += 1;
    bucket.failed += it.status === "failed" ? 1 : 0;
    bucket.usd += it.usd;
  }
  return buckets;
}
