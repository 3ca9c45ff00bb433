/** Questions to people in one line. */
import type { Schema } from "./api.ts";
import { callText } from "./events.ts";

/** Number of calls that a line names. */
const NAMED = 3;

/** What the answer approves or settles: the calls, with their arguments or without. Empty if the question is about no call. */
export function subject(it: Schema<"InboxItem">, hasArguments: boolean): string {
  const { action, args } = it.interrupt.action_request;
  const text = (name: string, given: unknown) => (given && hasArguments ? callText(name, given) : name);
  const isDoubt = it.kind === "in_doubt";
  const calls = isDoubt ? [text(action, args)] : (it.calls ?? []).map((call) => text(name(call), call.arguments));
  const more = calls.length - NAMED;
  return calls.slice(0, NAMED).join(" · ") + (0 < more ? ` · and ${more} more` : "");
}

const name = (call: Schema<"ProposedCall">): string => `${call.server}.${call.tool}`;
