/** Every view with the data of the demo, at three widths, in both themes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Page, setUp, WIDTHS } from "./harness.mjs";

let engine, browser, threads, batch, reasoned;

/** The first event from number 11 on whose decision has a reason. The kill of the demo may be an event anywhere in a log. */
async function reasonOf(thread) {
  const { events } = await engine.api("GET", `/v1/threads/${thread}`);
  for (let at = 11; at < events; at += 1)
    if ((await engine.api("GET", `/v1/threads/${thread}/why?at=${at}`)).decision?.reason) return at;
  throw new Error(`no decision of thread ${thread} has a reason`);
}

async function fill(it) {
  ({ engine, browser } = it);
  const failed = await engine.turn("probe", "flaky 1; fail out of paper");
  const asked = await engine.turn("probe", "ask Which colour? | red | green");
  const approval = await engine.turn("action_plan", "Welcome Ben Dale (ben.dale@example.org) on 2026-12-24 at 16");
  const { data } = await engine.api(
    "GET",
    `/v1/turns?limit=1&where=${encodeURIComponent("strategy = planner_with_prompts")}`,
  );
  threads = { failed: failed.thread_id, asked: asked.thread_id, approval: approval.thread_id, long: data[0].thread_id };
  reasoned = await reasonOf(threads.long);
  const inputs = ["echo hi", "echo hi", "fail no paper"];
  batch = await engine.batch(inputs.map((input) => ({ strategy: "probe", input })));
  await engine.api("PUT", "/v1/pauses/strategy/research", { reason: "the index is being moved" });
}
setUp(fill, { demo: true });

const views = () => [
  ["overview", "", "Responses"],
  ["turns", "turns", "planner"],
  ["turns-filtered", "turns?where=status+%3D+failed", "out of paper"],
  ["turns-empty", "turns?where=error+~+nothing", "No turn matches"],
  ["threads", "threads?status=error", "probe"],
  ["thread", `threads/${threads.long}`, "Conversation"],
  ["thread-timeline", `threads/${threads.failed}?tab=timeline`, "fix the cause and retry"],
  ["thread-state", `threads/${threads.long}?tab=state&at=4`, "After event"],
  ["thread-map", `threads/${threads.long}?tab=map`, "Dashed edges"],
  ["thread-why", `threads/${threads.long}?tab=why&at=${reasoned}`, "Because"],
  ["thread-usage", `threads/${threads.long}?tab=usage`, "in models and tools"],
  ["thread-question", `threads/${threads.asked}`, "red"],
  ["thread-approval", `threads/${threads.approval}`, "calendar.book"],
  ["thread-diff", `threads/${threads.failed}/diff/${threads.asked}`, "The threads diverge"],
  ["thread-unknown", "threads/00000000-0000-7000-8000-000000000000", "Try again"],
  ["inbox", "inbox", "approval"],
  ["inbox-empty", "inbox?kind=ambiguity", "No question of this kind"],
  ["batches", "batches", "Drop a file of lines"],
  ["batch", `batches/${batch}`, "Failures by cause"],
  ["strategies", "strategies", "index_builder"],
  ["strategy", "strategies/planner", "Default configuration"],
  ["queue", "queue", "the index is being moved"],
  ["playground", "playground", "Nothing sent yet"],
  ["nowhere", "nowhere", "There is no such view"],
];

for (const width of WIDTHS) {
  test(`every view is sound at ${width} px`, { timeout: 600_000 }, async () => {
    const faults = [];
    for (const [nth, [name, path, text]] of views().entries()) {
      const page = await Page.open(browser, engine, {
        width,
        theme: nth % 2 === (width === 768 ? 1 : 0) ? "light" : "dark",
      });
      await page.view(path, text);
      // The browser reports the status of a missing document itself.
      const isKnown = (it) => name === "thread-unknown" && it.includes("404");
      faults.push(...(await page.faults(name)).filter((it) => !isKnown(it)));
      await page.close();
    }
    assert.deepEqual(faults, []);
  });
}
