/** The page never shows what is not so: two sources that disagree, old data, unknown figures, and what still goes on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { becomes, Page, setUp, until } from "./harness.mjs";

let engine, browser;
setUp((it) => ({ engine, browser } = it));

const options = { timeout: 180_000 };
const message = (page, text) => page.tab.locator(".message").filter({ hasText: text }).last();
const visit = (page, node) => page.tab.locator(".visit").filter({ hasText: node }).last();

test("the conversation and the status catch up with the log", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "echo hello");
  const now = await engine.api("GET", `/v1/threads/${thread}`);
  const old = { ...now, events: 1, messages: [], log_status: "busy", outcome: null };
  const page = await Page.open(browser, engine);
  let [replies, release] = [0];
  const held = new Promise((done) => (release = done));
  await page.tab.route(new RegExp(`/v1/threads/${thread}$`), async (route) =>
    (replies += 1) === 1 ? route.fulfill({ json: old }) : (await held, route.continue()),
  );
  await page.view(`threads/${thread}`, "Timeline");
  await page.sees("The conversation is being read");
  // The log alone tells the status: the newer row is held back.
  await page.tab.locator("main header .badge", { hasText: "idle" }).waitFor();
  await until(() => 2 <= replies);
  release();
  // Within the 15 s after which the row is read again in any case.
  await page.tab.locator(".message", { hasText: "hello" }).first().waitFor({ timeout: 10_000 });
  await page.tab.locator("main header .badge", { hasText: "answered" }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("an event in the middle of a long thread is shown with the conversation as it was", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "steps 700; echo first");
  for (const name of ["second", "third"]) await engine.again(thread, `steps 700; echo ${name}`);
  const { data } = await engine.api("GET", `/v1/threads/${thread}/events?limit=1000&after=700`);
  const second = data.find((it) => it.kind === "turn_started").seq;
  const page = await Page.open(browser, engine);
  const isInView = async (seq) => {
    const box = await page.tab.locator(".event.at").boundingBox();
    const text = await page.tab.locator(".event.at .seq").innerText();
    return text === String(seq) && 100 < box.y && box.y + box.height < 900;
  };
  await page.view(`threads/${thread}?at=${second + 200}`, "Timeline");
  await page.tab.locator(".message.later").first().waitFor();
  const dimmed = () =>
    page.tab.locator(".message").evaluateAll((all) => all.map((it) => it.classList.contains("later")));
  await becomes(dimmed, [false, false, false, true, true, true]);
  await until(() => isInView(second + 200));
  await message(page, "echo second")
    .getByRole("button", { name: `event ${second}`, exact: true })
    .waitFor();
  await page.tab.evaluate((seq) => (location.hash = location.hash.replace(/at=\d+/, `at=${seq}`)), 100);
  await until(() => isInView(100));
  await becomes(() => page.tab.locator(".message.later").count(), 5);
  await page.sees("The thread went on after this event.");
  assert.deepEqual(await page.faults("thread-middle"), []);
  await page.close();
});

test("a conversation longer than a page is read to its beginning", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "echo hello");
  const now = await engine.api("GET", `/v1/threads/${thread}`);
  const page = await Page.open(browser, engine);
  const earlier = Array.from({ length: 3 }, (_, nth) => ({ role: "user", content: `earlier ${nth}` }));
  await page.tab.route(new RegExp(`/v1/threads/${thread}(\\?|$)`), (route) =>
    route.fulfill({
      json: route.request().url().includes("before=3")
        ? { ...now, first_message: 0, messages: earlier }
        : { ...now, first_message: 3 },
    }),
  );
  await page.view(`threads/${thread}`, "3 before these");
  await page.button("Show earlier messages").click();
  await page.sees("earlier 0");
  await becomes(() => page.button("Show earlier messages").count(), 0);
  await page.close();
});

test("a running node counts its time, and a cancelled one no longer runs", options, async () => {
  const { thread_id: thread } = await engine.api("POST", "/v1/turns", { strategy: "probe", input: "wait 600" });
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}`, "Timeline");
  await until(async () => /\b([2-9]\.\d|\d\d) s\b/.test(await visit(page, "wait").innerText()));
  await page.button("Cancel the turn").click();
  await until(async () => /cancelled/.test(await visit(page, "wait").innerText()));
  // The time of the log, which is known only now, may replace that of the clock.
  await page.settled();
  const took = await visit(page, "wait").innerText();
  await page.tab.waitForTimeout(2_500);
  assert.equal(await visit(page, "wait").innerText(), took);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a line of a batch that ran again is listed once, with its last result", options, async () => {
  const inputs = ["fail no paper", "echo fine"];
  const batch = await engine.batch(inputs.map((input) => ({ strategy: "probe", input })));
  const state = () => engine.api("GET", `/v1/batches/${batch}`);
  await until(async () => (await state()).status === "completed");
  const page = await Page.open(browser, engine);
  await page.view(`batches/${batch}`, "Failures by cause");
  const rows = page.tab.getByRole("region", { name: "Results" }).getByRole("row");
  await becomes(() => rows.count(), 3);
  await page.button("Run again").click();
  await until(async () => (await state()).turnfold.results === 3);
  await until(async () => /^3\b/.test((await rows.nth(1).innerText()).trim()));
  await becomes(() => rows.count(), 3);
  await page.sees("2 of 2, the newest first");
  await page.close();
});

test("results are read from the newest to the first", options, async () => {
  const batch = await engine.batch(Array.from({ length: 120 }, () => ({ strategy: "probe", input: "echo hi" })));
  await until(async () => (await engine.api("GET", `/v1/batches/${batch}`)).status === "completed");
  const page = await Page.open(browser, engine);
  await page.view(`batches/${batch}`, "50 of 120");
  const rows = page.tab.getByRole("region", { name: "Results" }).getByRole("row");
  await page.button("Load more").click();
  await page.sees("100 of 120");
  await page.button("Load more").click();
  await page.sees("120 of 120, the newest first");
  await becomes(() => page.button("Load more").count(), 0);
  await becomes(
    async () => (await rows.allInnerTexts()).slice(1).map((it) => parseInt(it)),
    Array.from({ length: 120 }, (_, nth) => 120 - nth),
  );
  await page.close();
});

test("data that cannot be read again is marked, and what no longer exists is not shown", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "echo hello");
  const page = await Page.open(browser, engine);
  await page.view("queue", "Nothing waits");
  await page.tab.route(/\/v1\/queue/, (route) =>
    route.fulfill({ status: 503, json: { detail: "the database does not answer", status: 503 } }),
  );
  await page.sees("Not up to date:");
  await page.tab.unroute(/\/v1\/queue/);
  await page.gone("Not up to date:");
  await page.view(`threads/${thread}`, "Conversation");
  await engine.api("DELETE", `/v1/threads/${thread}`);
  await page.gone("hello");
  await page.sees("Try again");
  await page.close();
});

test("rows of one filter are not shown under another", options, async () => {
  await engine.turn("probe", "fail out of paper");
  const page = await Page.open(browser, engine);
  await page.view("turns?status=failed", "fail out of paper");
  await page.tab.getByRole("searchbox").or(page.tab.locator("[data-search]")).first().fill("nothing = 1");
  await page.tab.keyboard.press("Enter");
  await page.sees("there is no field nothing");
  assert.equal(await page.tab.locator("main [data-row]").count(), 0);
  assert.equal(await page.tab.getByText(/ shown$/).count(), 0, "no number is known");
  await page.close();
});

test("rows beyond the first page follow what happens", options, async () => {
  const late = await engine.api("POST", "/v1/turns", { strategy: "probe", input: "wait 600" });
  await Promise.all(Array.from({ length: 90 }, (_, nth) => engine.turn("probe", `echo ${nth}`)));
  const page = await Page.open(browser, engine);
  await page.view("turns", "shown");
  const row = page.tab.locator(`[title="Turn ${late.id}"]`);
  await until(async () => {
    if (await row.count()) return true;
    await page.tab.locator("main a[data-row]").last().scrollIntoViewIfNeeded();
  });
  await row.locator(".badge", { hasText: "running" }).waitFor();
  await engine.api("POST", `/v1/turns/${late.id}/cancel`, {});
  await row.locator(".badge", { hasText: "cancelled" }).waitFor();
  await page.close();
});

test("an unknown cost is not zero", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "echo hello");
  const now = await engine.api("GET", `/v1/threads/${thread}`);
  const page = await Page.open(browser, engine);
  const usage = { ...now.usage, usd: 0, responses_without_price: 2, input_tokens: 100 };
  await page.tab.route(new RegExp(`/v1/threads/${thread}$`), (route) => route.fulfill({ json: { ...now, usage } }));
  await page.view(`threads/${thread}?tab=usage`, "cost unknown");
  assert.ok(!(await page.tab.locator("main").innerText()).includes("$0"));
  await page.close();
});

test("times are right on a computer whose clock is wrong", options, async () => {
  await engine.turn("probe", "echo hello");
  const page = await Page.open(browser, engine);
  await page.context.addInitScript(() => {
    const real = Date.now;
    Date.now = () => real() - 3_600_000;
  });
  await page.view("turns", "shown");
  const time = page.tab.locator("main [data-row] time").first();
  await until(async () => /just now|\d+ s ago/.test(await time.innerText()));
  await page.close();
});

test("a refused stream is not an API that is away, and its events are read without it", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "ask Which size? | small | large");
  const page = await Page.open(browser, engine);
  await page.tab.route(/\/events/, (route) =>
    route.request().headers().accept?.includes("event-stream")
      ? route.fulfill({ status: 429, json: { detail: "the key has too many open event streams", status: 429 } })
      : route.continue(),
  );
  await page.view(`threads/${thread}`, "too many open event streams");
  assert.equal(await page.tab.getByText("live", { exact: true }).count(), 0);
  await engine.api("POST", `/v1/inbox/${thread}`, { type: "respond", args: "large" });
  await page.sees("receive_answer");
  assert.equal(await page.tab.getByText("The API does not answer.").count(), 0);
  await page.close();
});

test("nothing needs you only once everything was read", options, async () => {
  const page = await Page.open(browser, engine);
  const idle = { data: [], has_more: false };
  await page.tab.route(/\/v1\/inbox/, (route) => route.fulfill({ json: idle }));
  await page.tab.route(/\/v1\/stats/, async (route) => {
    const json = await (await route.fetch()).json();
    await route.fulfill({ json: { ...json, ended: { ...json.ended, failed: 0 }, causes: [] } });
  });
  let release;
  const held = new Promise((done) => (release = done));
  await page.tab.route(/\/v1\/pauses/, async (route) => (await held, route.fulfill({ json: idle })));
  await page.view("", "ended, last day");
  assert.equal(await page.tab.getByText("Nothing needs you").count(), 0);
  release();
  await page.sees("Nothing needs you");
  await page.close();
});
