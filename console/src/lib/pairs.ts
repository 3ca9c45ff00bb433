/** Two batches of the same lines, line by line. */
import { endOf, type Line } from "./lines.ts";
import { blanked } from "./words.ts";

export interface Pair {
  name: string;
  left?: Line;
  right?: Line;
  /** True if the answers differ in more than clocks and ids. */
  isAnswerOther: boolean;
  isEndOther: boolean;
  /** Cost of the right line less that of the left one. */
  more: number;
}

/** The lines of both batches by their names, in the order of the left one. */
export function pairsOf(left: Line[], right: Line[]): Pair[] {
  const rest = new Map(right.map((it) => [it.name, it]));
  const pairs = left.toSorted((a, b) => a.n - b.n).map((it) => [it, rest.get(it.name)] as const);
  left.forEach((it) => rest.delete(it.name));
  return [...pairs.map(([a, b]) => pair(a, b)), ...[...rest.values()].map((it) => pair(undefined, it))];
}

function pair(left?: Line, right?: Line): Pair {
  const isBoth = left !== undefined && right !== undefined;
  return {
    name: (left ?? right)!.name,
    left,
    right,
    isAnswerOther: !isBoth || blanked(left.text) !== blanked(right.text),
    isEndOther: !isBoth || endOf(left) !== endOf(right),
    more: (right?.usd ?? 0) - (left?.usd ?? 0),
  };
}

/** A value of a CSV file. A text that a spreadsheet would take for a formula begins with an apostrophe. */
export function cell(value: string | number): string {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv(pairs: Pair[]): string {
  const head = [
    "custom_id",
    "answer_changed",
    "end_changed",
    "left_end",
    "right_end",
    "left_answer",
    "right_answer",
    "left_usd",
    "right_usd",
    "left_thread",
    "right_thread",
  ];
  const rows = pairs.map(({ name, left, right, isAnswerOther, isEndOther }) => [
    name,
    String(isAnswerOther),
    String(isEndOther),
    left ? endOf(left) : "",
    right ? endOf(right) : "",
    left?.text ?? "",
    right?.text ?? "",
    left?.usd ?? "",
    right?.usd ?? "",
    left?.thread ?? "",
    right?.thread ?? "",
  ]);
  return [head, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
