/** The work of people: upload, watch, scrub, filter, fork, retry, lose the API and get it back. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { becomes, Page, setUp, until } from "./harness.mjs";

let engine, browser;
setUp((it) => ({ engine, browser } = it), { demo: true });

/** Reports by the browser of requests that fail while the API is away, or of a question that was answered elsewhere. */
const LOST = /409 .*inbox|ERR_(CONNECTION|INCOMPLETE_CHUNKED|EMPTY|CONTENT_LENGTH|SOCKET)/;
const options = { timeout: 180_000 };

test("a batch is uploaded and watched to its end", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("batches", "Drop a file of lines");
  const line = (id, input) =>
    JSON.stringify({ custom_id: id, method: "POST", url: "/v1/turns", body: { strategy: "probe", input } });
  const lines = [
    "{broken",
    ...Array.from({ length: 40 }, (_, nth) => line(`line-${nth}`, nth % 10 ? "echo hi" : "fail no paper")),
    line("line-1", "echo twice"),
  ];
  await page.tab
    .locator("input[type=file]")
    .setInputFiles({ name: "lines.jsonl", mimeType: "application/x-ndjson", buffer: Buffer.from(lines.join("\n")) });
  await page.sees("42 lines");
  await page.sees('custom_id "line-1" is also on line 3');
  await page.button("Quote").click();
  await page.sees("lines to run");
  await page.button("Start the batch").click();
  await page.sees("completed");
  await page.sees("Failures by cause");
  await page.sees("Invalid lines");
  await page.sees("42 of 42");
  const saved = page.tab.waitForEvent("download");
  await page.button("Download results").click();
  const results = readFileSync(await (await saved).path(), "utf8")
    .trim()
    .split("\n");
  assert.equal(results.length, 36);
  await page.button("Run 4 failed again").click();
  await page.sees("The lines run again");
  assert.deepEqual(await page.faults("batch-ended"), []);
  await page.close();
});

test("the lines of one cause run again", options, async () => {
  const fail = (reason) => ({ strategy: "probe", input: `fail ${reason}` });
  const batch = await engine.batch([fail("no paper"), fail("no paper"), fail("no ink")]);
  const results = async () => (await engine.api("GET", `/v1/batches/${batch}`)).turnfold.results;
  await until(async () => (await engine.api("GET", `/v1/batches/${batch}`)).status === "completed");
  const before = await results();
  const page = await Page.open(browser, engine);
  await page.view(`batches/${batch}`, "no ink");
  const row = page.tab.getByRole("row").filter({ hasText: "no ink" });
  assert.match(
    await row.getByRole("button", { name: "Copy command" }).getAttribute("title"),
    /batch resume batch_.* --only failed --cause/,
  );
  await row.getByRole("button", { name: "Run again" }).click();
  await page.sees("The lines run again");
  await until(async () => (await results()) === before + 1);
  assert.deepEqual(await page.faults("batch-cause"), []);
  await page.close();
});

test("a batch, the overview and the API group failures by the same causes", options, async () => {
  const fail = (nth) => ({ strategy: "probe", input: `fail order ${nth} of "ACME ${nth}" is gone` });
  const batch = await engine.batch([fail(17), fail(18), fail(19)]);
  await until(async () => (await engine.api("GET", `/v1/batches/${batch}`)).status === "completed");
  const { data } = await engine.api("GET", "/v1/turns/causes");
  const [group] = data.filter((it) => it.cause.includes("is gone"));
  assert.equal(group.turns, 3, JSON.stringify(data));
  assert.ok(!/1[789]/.test(group.cause), group.cause);
  await until(async () =>
    (await engine.api("GET", "/v1/stats?range=hour")).causes.some((it) => it.cause === group.cause && it.turns === 3),
  );
  const page = await Page.open(browser, engine);
  await page.view(`batches/${batch}`, "Failures by cause");
  const row = page.tab.getByRole("row").filter({ hasText: group.cause });
  await becomes(() => row.count(), 1);
  assert.equal(await row.getByRole("cell").first().textContent(), "3");
  const copied = await row.getByRole("button", { name: "Copy command" }).getAttribute("title");
  assert.ok(copied.includes("--cause"), copied);
  await page.view("?range=hour", "What fails?");
  const line = page.tab.getByRole("link").filter({ hasText: group.cause });
  assert.equal((await line.locator("strong").textContent()).trim(), "3");
  await line.click();
  await page.sees("order 18");
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("the slider shows the state at any event, and what the event changed", options, async () => {
  // Not one of the demo, whose kill may be an event anywhere in a log.
  const { thread_id: thread } = await engine.turn("planner", "Book a walk on 2026-12-30 at 15");
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}?tab=state`, "After event");
  const { events } = await engine.api("GET", `/v1/threads/${thread}`);
  const slider = page.tab.getByRole("slider");
  await becomes(() => slider.inputValue(), String(events - 1));
  await slider.fill("4");
  await page.tab.waitForURL(/at=4\b/);
  await page.sees("Event 4 changed");
  // A change is highlighted.
  await page.tab.locator(".changed").first().waitFor();
  await page.tab.getByRole("button", { name: "Next event" }).click();
  await page.tab.waitForURL(/at=5\b/);
  await page.tab.reload();
  await page.sees("event 5 of");
  await page.tab.getByRole("tab", { name: "Map" }).click();
  await page.sees("up to event 5");
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("filters are in the address, and a wrong one is explained", options, async () => {
  await engine.turn("probe", "fail out of paper");
  const page = await Page.open(browser, engine);
  await page.view("turns", "shown");
  await page.tab.keyboard.press("/");
  await page.tab.keyboard.type("status = failed and strategy = probe");
  await page.tab.keyboard.press("Enter");
  await page.sees("fail out of paper");
  assert.match(page.tab.url(), /where=status/);
  await page.tab.reload();
  await page.sees("fail out of paper");
  await page.view("turns?where=nothing+%3D+1", "there is no field nothing");
  assert.equal(page.problems.filter((it) => !it.includes("422")).length, 0);
  await page.close();
});

test("a long list is read page by page", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("turns", "shown");
  const { length } = (await engine.api("GET", "/v1/turns?limit=1000")).data;
  assert.ok(200 < length);
  const shown = page.tab.getByText(new RegExp(`^${new Intl.NumberFormat("en").format(length)} shown$`));
  await until(async () => {
    await page.tab.mouse.wheel(0, 2_000);
    return (await shown.count()) === 1;
  });
  assert.ok((await page.tab.locator("main [data-row]").count()) < 100, "only rows near the window are in the document");
  await page.close();
});

test("everything is reached by keyboard", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("", "Does anything need me?");
  await page.tab.keyboard.press("g");
  await page.tab.keyboard.press("h");
  await page.tab.getByRole("heading", { name: "Threads" }).waitFor();
  await page.tab.locator("main [data-row]").first().waitFor();
  await page.tab.keyboard.press("j");
  await page.tab.keyboard.press("j");
  await page.tab.keyboard.press("k");
  await page.tab.keyboard.press("Enter");
  await page.sees("Conversation");
  await page.tab.keyboard.press("?");
  await page.tab.getByRole("dialog").waitFor();
  await page.tab.keyboard.press("Escape");
  await page.tab.getByRole("dialog").waitFor({ state: "detached" });
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a thread is forked, compared, verified, replayed and retried", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "echo one; fail out of paper; echo two");
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}`, "Failed at");
  await page.button("Retry").click();
  await page.sees("The turn continues");
  await engine.rest(thread);
  await page.sees("two");
  await page.button("Verify").click();
  await page.sees("is intact");
  await page.tab.keyboard.press("Escape");
  await page.button("Replay").click();
  await page.sees("makes the same decisions");
  await page.tab.keyboard.press("Escape");
  await page.button("Fork").click();
  await page.tab.getByLabel("Last event to copy").fill("1");
  await page.tab.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await page.sees("Forked from");
  await page.button("Compare").click();
  await page.button("Use the thread that this one was forked from").click();
  await page.tab.getByRole("dialog").getByRole("button", { name: "Compare", exact: true }).click();
  await page.sees("the same");
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("events arrive by the stream alone", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "ask Which size? | small | large");
  const frozen = await engine.api("GET", `/v1/threads/${thread}`);
  const page = await Page.open(browser, engine);
  await page.tab.route(/\/v1\/threads\/[0-9a-f-]+$/, (route) => route.fulfill({ json: frozen }));
  await page.view(`threads/${thread}`, "event 4 of 4");
  await page.tab.getByText("live", { exact: true }).waitFor();
  await engine.api("POST", `/v1/inbox/${thread}`, { type: "respond", args: "large" });
  await page.sees("receive_answer");
  await page.sees("event 8 of 8");
  await page.close();
});

test("events appear as they happen; the page says when the API is gone, and recovers", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("playground", "Nothing sent yet");
  await page.tab.getByLabel("Message", { exact: true }).fill("stream one two three; ask Which size? | small | large");
  await page.button("Send").click();
  await page.sees("Which size?");
  const thread = new URL(page.tab.url().replace("#", "")).searchParams.get("thread");
  await page.tab.getByText("live", { exact: true }).waitFor();
  // The message that was sent contains the question too.
  await until(async () => (await engine.api("GET", `/v1/threads/${thread}`)).status === "interrupted");
  await engine.api("POST", `/v1/inbox/${thread}`, { type: "respond", args: "large" });
  await page.sees('answered "large"');
  await engine.kill();
  await page.sees("The API does not answer.");
  assert.deepEqual(
    (await page.faults("away")).filter((it) => !LOST.test(it)),
    [],
  );
  await engine.run();
  await page.tab.getByText("The API does not answer.").waitFor({ state: "detached" });
  await page.tab.getByText("live", { exact: true }).waitFor();
  await engine.again(thread, "echo back again");
  await page.sees("back again");
  assert.deepEqual(
    page.problems.filter((it) => !LOST.test(it)),
    [],
  );
  await page.close();
});

test("a long log is shown in windows", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "steps 2500; echo done");
  const { events } = await engine.api("GET", `/v1/threads/${thread}`);
  assert.ok(2_000 < events, String(events));
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}`, "Load earlier events");
  await page.sees(`Events ${events - 1_000} to ${events - 1}`);
  await page.tab.getByRole("slider").fill("100");
  await page.sees("Go to the newest events");
  await page.tab.getByRole("tab", { name: "State" }).click();
  await page.sees("After event 100");
  await page.button("Newest").click();
  await page.tab.getByRole("tab", { name: "Timeline" }).click();
  await page.sees(`Events ${events - 1_000} to ${events - 1}`);
  await page.button("Load earlier events").click();
  await page.sees(`Events ${events - 2_000} to ${events - 1}`);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a model is forgotten by a button and listed with its operator", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("queue", "Forgotten models");
  await page.sees("No model was forgotten");
  await page.tab.getByLabel("Model to forget").fill("openai/gpt-4o");
  await page.button("Forget").click();
  await page.sees("Forgotten");
  await until(async () => {
    const { data } = await engine.api("GET", "/v1/forgotten_models");
    return data.length === 1 && data[0].model === "openai/gpt-4o";
  });
  await page.sees("openai/gpt-4o");
  await page.close();
});
