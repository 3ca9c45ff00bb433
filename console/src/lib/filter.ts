/** What narrows a list: status, conditions and period, as the address has them. */
import { untrack } from "svelte";
import type { Schema } from "./api.ts";
import { now } from "./app.svelte.ts";
import { route } from "./route.svelte.ts";

export type Range = Schema<"StatsRange">;

const DAY = 86_400_000;

/** The present by the clock of the API. A list does not load again when it advances. */
const present = (): number => untrack(() => now.at);

interface Period {
  text: string;
  /** Condition in the language of `--where`. */
  where: () => string;
  /** First moment, in milliseconds. */
  since: (now: number) => number;
}

const last = (text: string, age: string, ms: number): Period => ({
  text,
  where: () => `age < ${age}`,
  since: (now) => now - ms,
});

/** The periods of lists, by their names in the address. */
export const PERIODS: Record<Range | "month", Period> = {
  hour: last("last hour", "1h", DAY / 24),
  today: {
    text: "today, UTC",
    where: () => `created > '${new Date(present()).toISOString().slice(0, 10)}'`,
    since: (now) => now - (now % DAY),
  },
  day: last("last day", "1d", DAY),
  week: last("last week", "7d", 7 * DAY),
  month: last("last 30 days", "30d", 30 * DAY),
};

/** The periods of statistics, and their names after a count. */
export const RANGES: Record<Range, string> = {
  hour: PERIODS.hour.text,
  today: PERIODS.today.text,
  day: PERIODS.day.text,
  week: PERIODS.week.text,
};

/** Returns the period of this name; the last day if there is none. */
export const rangeOf = (name?: string): Range => (name && name in RANGES ? (name as Range) : "day");

/** Condition for the turns of a period, by the time of submission. */
export const condition = (range: Range): string => PERIODS[range].where();

const period = (): Period | undefined => (PERIODS as Record<string, Period>)[route.query.range ?? ""];

/**
 * Converts what was typed to a condition: a condition as it is, an id or its short form to `thread = …`, and plain words to
 * `text = "…"`. Eight decimal digits are words: they are more often an order number. What looks like a condition and is none is left to
 * the API, which says where it is wrong.
 */
export function toCondition(typed: string): string {
  const text = typed.trim();
  if (!text || /^\(?\s*[\w.-]+\s*[=!~<>]/.test(text)) return text;
  const digits = text.replace(/-/g, "");
  const isShort = digits.length === 8 && /[a-f]/i.test(digits) && /\d/.test(digits);
  if (/^[0-9a-f]+$/i.test(digits) && (isShort || digits.length === 32)) return `thread = ${text}`;
  const quote = text.includes('"') ? "'" : '"';
  return `text = ${quote}${text.replaceAll(quote, " ")}${quote}`;
}

/** The words that a condition searches for; empty without any. */
export function wordsOf(where = ""): string {
  const [, double, single, plain] = /\btext\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s()]+))/i.exec(where) ?? [];
  return (double ?? single ?? plain ?? "").trim();
}

/** The query of a list: its status, and the conditions of the filter and of the period. */
export function listQuery(): { status?: string; where?: string } {
  const conditions = [route.query.where, period()?.where()].filter(Boolean);
  return { status: route.query.status, where: conditions.join(" and ") || undefined };
}

/** Reports whether a moment is in the chosen period. */
export const isInPeriod = (at: number): boolean => (period()?.since(present()) ?? 0) <= at;
