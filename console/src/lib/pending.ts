/** Reasons for which turns do not run, as people read them. */
import type { Schema } from "./api.ts";

export const causes: Record<Schema<"PendingCause">, string> = {
  worker: "waiting for a free slot",
  limit: "at a rate limit",
  provider: "model or server refuses requests",
  paused: "paused",
  retry: "an attempt is repeated later",
  stalled: "its worker does not respond",
  died: "runs again after its worker died",
  not_enqueued: "not in the queue; the sweeper enqueues it",
  behind: "behind another turn or a question",
  not_due: "not due yet",
  person: "waiting for a person",
};
