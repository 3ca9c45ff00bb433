/** The event that added each message of a conversation, found in a window of the log. */
import { body, type LogEvent, type Message } from "./events.ts";

export interface Origin {
  event: LogEvent;
  message: Message;
}

/** The messages that these events added, in order. */
export const added = (events: LogEvent[]): Origin[] =>
  events.flatMap((event) =>
    ((body(event).messages as Message[] | undefined) ?? []).map((message) => ({ event, message })),
  );

/**
 * The event of each message, if it is in the window. `start` is the index of the first message in the conversation, and
 * `before` the number of messages that the conversation had before the window. The engine adds some messages without an
 * event of their own, and a rollback removes some, so an event counts only if it has the text of the message.
 */
export function originsOf(
  messages: Message[],
  start: number,
  window: Origin[],
  before: number,
): (LogEvent | undefined)[] {
  return messages.map((message, nth) => {
    const it = window[start + nth - before];
    const isSame = it?.message.role === message.role && (it.message.content ?? "") === (message.content ?? "");
    return isSame ? it.event : undefined;
  });
}
