/** Waiting for what a page or an API will show, and texts to wait for. */
import assert from "node:assert/strict";

/** Repeats a check until it succeeds, for at most a minute. */
export async function until(check, ms = 60_000) {
  const end = Date.now() + ms;
  for (;;) {
    try {
      if (await check()) return;
    } catch (error) {
      if (end < Date.now()) throw error;
    }
    assert.ok(Date.now() < end, `not within ${ms / 1_000} s: ${check}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** Waits until what is read is as expected. What a page shows may follow what was done to it. */
export function becomes(read, expected) {
  return until(async () => {
    assert.deepEqual(await read(), expected);
    return true;
  });
}

/**
 * A text to look for. A number at its beginning or end is whole: `1 shown` is not in `51 shown`, nor `event 8 of 8` in
 * `event 8 of 80`.
 */
export function whole(text) {
  const [begins, ends] = [/^\d[\d,.]*\s/.test(text), /\s\d[\d,.]*$/.test(text)];
  if (typeof text !== "string" || (!begins && !ends)) return text;
  const words = text.split(/\s+/).map((it) => it.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`${begins ? "(?<!\\d[,.]?)" : ""}${words.join("\\s+")}${ends ? "(?![,.]?\\d)" : ""}`, "i");
}
