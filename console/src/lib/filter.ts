/** What a list shows: status, conditions, period and order, as the address has them. */
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
export const rangeOf = (name?: string): Range => (name && Object.hasOwn(RANGES, name) ? (name as Range) : "day");

/** Returns this name if a period of lists has it, and an empty one otherwise. */
export const presetOf = (name = ""): keyof typeof PERIODS | "" =>
  Object.hasOwn(PERIODS, name) ? (name as keyof typeof PERIODS) : "";

/** The name of all time where a list has another period without a name. */
export const EVER = "ever";

/** Condition for the turns of a period, by the time of submission. */
export const condition = (range: Range): string => PERIODS[range].where();

/** A period between two moments, in milliseconds. One of them may be open. */
export interface Span {
  from?: number;
  to?: number;
}

/** Reads a period between two moments as the address has it: `2026-11-30T03:00:00Z..2026-11-30T04:00:00Z`. */
export function spanOf(text = ""): Span | undefined {
  const ends = text.split("..").map((it) => (it ? Date.parse(it) : undefined));
  if (ends.length !== 2 || ends.some(Number.isNaN)) return undefined;
  const [from, to] = ends;
  return from === undefined && to === undefined ? undefined : { from, to };
}

/** The ends of a period that has a name, or is between two moments. One without them has all time. */
export function endsOf(range = ""): Span {
  const name = presetOf(range);
  return name ? { from: PERIODS[name].since(present()) } : (spanOf(range) ?? {});
}

const second = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");

/** Writes a period for the address, in whole seconds that contain it; empty without an end. */
export function spanText({ from, to }: Span): string {
  if (from === undefined && to === undefined) return "";
  return `${from === undefined ? "" : second(from)}..${to === undefined ? "" : second(Math.ceil(to / 1_000) * 1_000)}`;
}

/** The chosen period: its condition, and whether a moment is before or after it. A period between two moments has what was changed or submitted in it: all that changed last after its start, and was submitted before its end. */
interface Chosen {
  where: () => string;
  isBefore: (at: number) => boolean;
  isAfter: (at: number) => boolean;
}

function chosen(): Chosen | undefined {
  const name = presetOf(route.query.range);
  if (name) {
    const { where, since } = PERIODS[name];
    return { where, isBefore: (at) => at < since(present()), isAfter: () => false };
  }
  const span = spanOf(route.query.range);
  if (!span) return undefined;
  const { from = -Infinity, to = Infinity } = span;
  const ends = [
    ...(span.from === undefined ? [] : [`updated > '${second(from)}'`]),
    ...(span.to === undefined ? [] : [`created < '${second(to)}'`]),
  ];
  return { where: () => ends.join(" and "), isBefore: (at) => at < from, isAfter: (at) => to < at };
}

/** The shortest period of statistics that contains the chosen one, or most of it. */
export function rangeAround(): Range {
  const { range } = route.query;
  const span = spanOf(range);
  if (!span) return range === "month" ? "week" : rangeOf(range);
  const age = present() - (span.from ?? -Infinity);
  return age < DAY / 24 ? "hour" : age < DAY ? "day" : "week";
}

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

/** The query of a list: its status, the conditions of the filter and of the period, and its order. */
export function listQuery(): { status?: string; where?: string; order?: string } {
  const conditions = [route.query.where, chosen()?.where()].filter(Boolean);
  const order = route.query.order === "newest" ? undefined : route.query.order;
  return { status: route.query.status, where: conditions.join(" and ") || undefined, order };
}

/** Reports whether a moment is before the chosen period, or after it. */
export const isBeforePeriod = (at: number): boolean => chosen()?.isBefore(at) ?? false;
export const isAfterPeriod = (at: number): boolean => chosen()?.isAfter(at) ?? false;
