/** Reasons for which turns do not run, as people read them. */
import type { Schema } from "./api.ts";

export interface Cause {
  text: string;
  /** Figure of the overview that counts turns with this reason. */
  figure?: "worker" | "limit";
}

export const causes: Record<Schema<"PendingCause">, Cause> = {
  worker: { text: "waiting for a free slot", figure: "worker" },
  limit: { text: "at a rate limit", figure: "limit" },
  provider: { text: "model or server refuses requests", figure: "limit" },
  paused: { text: "paused", figure: "limit" },
  retry: { text: "an attempt is repeated later", figure: "limit" },
  stalled: { text: "its worker does not respond", figure: "worker" },
  died: { text: "runs again after its worker died" },
  not_enqueued: { text: "not in the queue; the sweeper enqueues it", figure: "worker" },
  behind: { text: "behind another turn or a question" },
  not_due: { text: "not due yet" },
  person: { text: "waiting for a person" },
};
