/** A log as turns and visits of nodes. The uses of their time come from the API. */
import { body, destination, requestText, type Fields, type LogEvent } from "./events.ts";
import { millis } from "./format.ts";

/** One visit of a node: from its requests, or its decision, to the next node. */
export interface Visit {
  node: string;
  events: LogEvent[];
  from: number;
  to: number;
  /** Summary of the requests, or the destination of a decision without any. */
  text: string;
  next: string;
  isFailed: boolean;
  isCancelled: boolean;
}

export interface TurnSpan {
  /** Id of the turn; empty for events before the first one. */
  id: string;
  start?: LogEvent;
  /** Events before the first turn, and all others that belong to no node. */
  other: LogEvent[];
  visits: Visit[];
  /** Events that rate the turn. They take none of its time. */
  ratings: LogEvent[];
  from: number;
  to: number;
  /** Time that a person took to answer before this turn, in milliseconds. */
  waited: number;
  isOver: boolean;
}

const ENDS = ["failed", "cancelled"];

export function turnsOf(events: LogEvent[]): TurnSpan[] {
  const turns: TurnSpan[] = [];
  let asked = 0;
  for (const event of events) {
    const [it, at] = [body(event), millis(event.at)];
    const last = turns.at(-1);
    if (event.kind === "rated" && last) {
      (turns.findLast((turn) => turn.id === it.turn) ?? last).ratings.push(event);
      continue;
    }
    const brings = event.kind === "input_provided" && it.turn !== last?.id;
    if (event.kind === "turn_started" || brings || !last) {
      const isAnswer = brings || (event.kind === "turn_started" && it.kind === "answer");
      const waited = isAnswer && asked ? at - asked : 0;
      const id = event.kind === "turn_started" || brings ? it.turn : "";
      turns.push({ id, other: [], visits: [], ratings: [], from: at, to: at, waited, isOver: false });
      // A tool that asked continues with the input.
      const visit = last?.visits.at(-1);
      if (brings && visit && isUnderWay(visit)) begin(turns.at(-1)!, { node: visit.node }, at).text = visit.text;
      if (brings) last!.isOver = true;
    }
    const turn = turns.at(-1)!;
    if (event.kind === "turn_started") turn.start = event;
    else add(turn, event, at);
    if (brings) turn.start = event;
    turn.to = Math.max(turn.to, at);
    const to = event.kind === "decided" ? destination(it.to) : "";
    if (ENDS.includes(event.kind) || to === "end" || to === "a person") turn.isOver = true;
    if (event.kind === "retried") turn.isOver = false;
    if (to === "a person" || event.kind === "input_required") asked = at;
  }
  return turns;
}

function add(turn: TurnSpan, event: LogEvent, at: number): void {
  const it = body(event);
  const last = turn.visits.at(-1);
  const isOpen = last !== undefined && isUnderWay(last);
  if (event.kind === "cancelled" && isOpen) last.isCancelled = true;
  if (["opened", "forked", "cancelled", "write_ended"].includes(event.kind) || (!last && !it.node)) {
    turn.other.push(event);
    return;
  }
  const continues =
    isOpen && (!it.node || (it.node === last.node && event.kind !== "asked") || it.node === "engine.summarise");
  const visit = continues || (last && !it.node) ? last! : begin(turn, it, at);
  visit.events.push(event);
  visit.to = Math.max(visit.to, at);
  if (event.kind === "asked" && !visit.text) visit.text = (it.requests ?? []).map(requestText).join(" · ");
  if (event.kind === "failed") visit.isFailed = true;
  if (event.kind === "retried") visit.isFailed = false;
  if (event.kind === "decided") visit.next = destination(it.to);
}

/** Reports whether a visit has neither led to another node nor ended in another way. */
const isUnderWay = (it: Visit): boolean => !it.next && !it.isFailed && !it.isCancelled;

/** The turns with the node that is under way, if there is one, lasting until `now`. */
export function lastingUntil(turns: TurnSpan[], now: number): TurnSpan[] {
  const turn = turns.at(-1);
  const visit = turn?.visits.at(-1);
  if (!turn || !visit || !isUnderWay(visit) || now <= visit.to) return turns;
  const visits = [...turn.visits.slice(0, -1), { ...visit, to: now }];
  return [...turns.slice(0, -1), { ...turn, visits, to: now }];
}

function begin(turn: TurnSpan, it: Fields, at: number): Visit {
  const visit: Visit = {
    node: it.node,
    events: [],
    from: at,
    to: at,
    text: "",
    next: "",
    isFailed: false,
    isCancelled: false,
  };
  turn.visits.push(visit);
  return visit;
}

/** Key of an edge: `from → to`, or `from ⇢ to` if a person answers in between. */
export const edgeKey = (from: string, to: string, isQuestion = false): string =>
  `${from} ${isQuestion ? "⇢" : "→"} ${to}`;

/** Number of times that each edge was walked. */
export function walkedEdges(events: LogEvent[]): Map<string, number> {
  const counts = new Map<string, number>();
  const walk = (edge: string) => counts.set(edge, (counts.get(edge) ?? 0) + 1);
  let isStart = false;
  for (const event of events) {
    const it = body(event);
    if (event.kind === "turn_started") isStart = it.kind !== "answer";
    const isNode = (event.kind === "asked" || event.kind === "decided") && it.node !== "engine.summarise";
    if (isNode && isStart) {
      walk(edgeKey("start", it.node));
      isStart = false;
    }
    if (event.kind === "decided") {
      const to = destination(it.to);
      walk(to === "a person" ? edgeKey(it.node, it.to.interrupt.resume, true) : edgeKey(it.node, to));
    }
  }
  return counts;
}

export interface NodeUsage {
  node: string;
  models: Set<string>;
  requests: number;
  failures: number;
  input: number;
  output: number;
  usd: number;
  responses_without_price: number;
  ms: number;
}

/** Tokens, money and time by node, the slowest first. */
export function usageByNode(events: LogEvent[]): NodeUsage[] {
  const nodes = new Map<string, NodeUsage>();
  let node = "";
  for (const event of events) {
    const it = body(event);
    if (event.kind === "asked") node = it.node;
    if (event.kind !== "answered" && event.kind !== "attempt_failed") continue;
    const sum = nodes.get(node) ?? {
      node,
      models: new Set(),
      requests: 0,
      failures: 0,
      input: 0,
      output: 0,
      usd: 0,
      responses_without_price: 0,
      ms: 0,
    };
    const used: Fields = it.usage ?? {};
    if (used.model) sum.models.add(used.model);
    sum.requests += 1;
    sum.failures += event.kind === "attempt_failed" ? 1 : 0;
    sum.input += used.input_tokens ?? 0;
    sum.output += used.output_tokens ?? 0;
    sum.usd += (used.micro_usd ?? 0) / 1e6;
    sum.responses_without_price += used.model && used.micro_usd == null ? 1 : 0;
    sum.ms += used.duration_ms ?? 0;
    nodes.set(node, sum);
  }
  return [...nodes.values()].sort((a, b) => b.ms - a.ms);
}

/** The node whose turn it is after the last of these events, or the one that failed. */
export function nodeAt(events: LogEvent[]): string {
  const last = events.findLast((it) => body(it).node || it.kind === "turn_started");
  if (!last || last.kind === "turn_started") return "";
  if (last.kind !== "decided") return body(last).node;
  const to = destination(body(last).to);
  return to === "end" || to === "a person" ? "" : to;
}
