/** Names of batches. */
import type { Schema } from "./api.ts";

/** The name that the client gave a batch in its metadata, else that of its file. */
export function nameOf(batch: Schema<"Batch">, file?: string): string {
  const { name, description } = batch.metadata as Record<string, unknown>;
  const given = [name, description].find((it) => typeof it === "string" && it.trim());
  return (given as string | undefined) ?? file ?? "Batch";
}
