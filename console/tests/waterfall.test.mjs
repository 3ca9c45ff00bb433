/** Where the time of a turn went: each moment has one use, and attempts, parallel requests and takeovers are seen. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { durations, rounding } from "./durations.mjs";
import { becomes, Engine, Page, until, WIDTHS } from "./harness.mjs";
import { load, setUpWith } from "./sources.mjs";

let engine, browser, lib;
setUpWith("lib/waterfall.ts", (it) => ({ engine, browser, lib } = it));

const options = { timeout: 180_000 };
const visit = (page, node) => page.tab.locator(".visit").filter({ hasText: node });

test("a rating belongs to its turn, and takes none of its time", async () => {
  const { turnsOf } = await load("lib/timeline.ts");
  const event = (seq, second, kind, more) => ({
    seq,
    at: `2026-11-30T00:00:0${second}Z`,
    kind,
    event: { event: kind, ...more },
  });
  const turn = (nth, id) => [
    event(nth, nth, "turn_started", { turn: id, messages: [] }),
    event(nth + 1, nth + 1, "decided", { node: "plan", to: "end" }),
  ];
  const rated = (seq, id) => event(seq, 9, "rated", { turn: id, rating: "good" });
  const turns = turnsOf([...turn(0, "a"), ...turn(2, "b"), rated(4, "a"), rated(5, "b")]);
  assert.deepEqual(
    turns.map((it) => [it.to - it.from, it.isOver, it.visits.length, it.visits[0].events.length, it.ratings[0].seq]),
    [
      [1_000, true, 1, 1, 4],
      [1_000, true, 1, 1, 5],
    ],
  );
});

test("the parts between two moments are cut at both", () => {
  const part = (kind, from_ms, to_ms) => ({ kind, from_ms, to_ms });
  const parts = [part("slot", 0, 10), part("model", 10, 40), part("engine", 40, 41), part("tool", 41, 90)];
  assert.deepEqual(lib.between(parts, 5, 41), [part("slot", 5, 10), part("model", 10, 40), part("engine", 40, 41)]);
  assert.deepEqual(lib.between(parts, 10, 10), []);
  assert.deepEqual(lib.between(parts, 41, 60), [part("tool", 41, 60)]);
  assert.deepEqual(lib.between([], 0, 9), []);
});

const attempt = (slot, from_ms, to_ms, is_answered = true, asked_seq = 3) => ({
  node: "call_tools",
  name: `notes.search_${slot}`,
  kind: "tool",
  seq: is_answered ? 9 : null,
  slot,
  from_ms,
  to_ms,
  is_answered,
  asked_seq,
});

test("attempts are counted by request, and the request that ended last is on the critical path", () => {
  const tries = lib.triesOf([attempt(1, 5, 20), attempt(0, 5, 15, false), attempt(0, 30, 50)]).get(3);
  assert.deepEqual(
    tries.map((it) => [it.slot, it.nth, it.of, it.after, it.isCritical, it.spare]),
    [
      [0, 1, 2, undefined, true, 0],
      [0, 2, 2, 15, true, 0],
      [1, 1, 1, undefined, false, 30],
    ],
  );
  assert.ok(lib.hasParallel(new Map([[3, tries]])));
  assert.ok(!lib.hasParallel(lib.triesOf([attempt(0, 0, 5), attempt(0, 9, 12, true, 7)])));
});

test("the uses of a turn add up to its duration, and each attempt has a row", options, async () => {
  const { thread_id: thread, id } = await engine.turn("probe", "wait 1; flaky 1; echo done");
  const time = await engine.api("GET", `/v1/turns/${id}/timeline`);
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}?tab=timeline`, "= ");
  await page.sees("waiting for a limit or provider");
  const legend = await page.tab.getByRole("list", { name: "Uses of the time" }).innerText();
  const shown = durations(legend.split("=")[0]);
  const sum = shown.reduce((all, it) => all + it, 0);
  const rounded = shown.reduce((all, it) => all + rounding(it), 0);
  assert.ok(Math.abs(sum - time.ms) <= rounded, `${legend}: ${time.ms}`);
  await visit(page, "flaky").getByRole("list").getByText("attempt 2 of 2").first().waitFor();
  const names = await visit(page, "flaky").getByRole("list").getByRole("button").allInnerTexts();
  assert.match(names.join("\n"), /attempt 1 of 2, failed[^]*attempt 2 of 2/);
  // The bars of the nodes tile the strip.
  const width = async (all) =>
    (await all.evaluateAll((bars) => bars.map((it) => parseFloat(it.style.width)))).reduce((a, b) => a + b, 0);
  const bars = page.tab.locator(".visit > .line:not(.try) > .bars > [class*=use-]");
  await until(async () => Math.abs((await width(bars)) - 100) < 1);
  // An attempt leads to the event that ended it.
  await visit(page, "flaky").getByRole("list").getByRole("button").first().press("Enter");
  await page.tab.locator(".event.at", { hasText: "attempt failed" }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a turn that runs is read until it is over", options, async () => {
  const { thread_id: thread } = await engine.api("POST", "/v1/turns", { strategy: "probe", input: "wait 15" });
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}?tab=timeline`, "until now");
  await page.gone("until now");
  const uses = await page.tab.getByRole("list", { name: "Uses of the time" }).innerText();
  const [waited] = durations(/\btool\s+.*/.exec(uses)[0]);
  // At least what it waits, and more only by what a busy machine is late.
  assert.ok(15_000 - rounding(waited) <= waited && waited < 25_000, uses);
  await page.close();
});

test("the time of a dead worker is not the node's, and the takeover is named", options, async () => {
  const other = await Engine.start();
  try {
    const { thread_id: thread, id } = await other.api("POST", "/v1/turns", { strategy: "probe", input: "wait 8" });
    const events = async () => (await other.api("GET", `/v1/threads/${thread}/events`)).data;
    await until(async () => (await events()).some((it) => it.kind === "asked"));
    await new Promise((done) => setTimeout(done, 700));
    await other.kill();
    await new Promise((done) => setTimeout(done, 1_500));
    await other.run();
    await until(async () => (await other.api("GET", `/v1/turns/${id}`)).status === "completed");
    const { takeovers, totals } = await other.api("GET", `/v1/turns/${id}/timeline`);
    const page = await Page.open(browser, other);
    await page.view(`threads/${thread}?tab=timeline`, "no worker alive");
    await page.sees(`${takeovers[0].worker} took over from ${takeovers[0].from}`);
    const dead = totals.find((it) => it.kind === "no_worker").ms;
    assert.ok(1_400 < dead, JSON.stringify(totals));
    const shown = await page.tab.getByText(/^\s*no worker alive/).innerText();
    assert.ok(Math.abs(durations(shown)[0] - dead) <= rounding(dead), shown);
    assert.equal(await visit(page, "wait").locator(".line:not(.try) .use-no_worker").count(), 1);
    await visit(page, "wait").getByText("attempt 1 of 2, no answer").waitFor();
    assert.deepEqual(await page.faults("waterfall-takeover"), []);
    await page.tab.getByRole("tab", { name: "Why" }).click();
    const why = page.tab.getByRole("region", { name: "Time of the turn" });
    await why.getByText("no worker alive").waitFor();
    await why.getByText(`${takeovers[0].worker} took over from ${takeovers[0].from}`).waitFor();
    assert.deepEqual(await page.faults("why-takeover"), []);
    await page.close();
  } finally {
    await other.stop();
  }
});

test("of a long thread only the times of open turns are read", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "steps 150; echo first");
  for (let nth = 0; nth < 5; nth += 1) await engine.again(thread, `steps 150; echo turn ${nth}`);
  const page = await Page.open(browser, engine);
  const read = [];
  page.tab.on("request", (it) => it.url().includes("/timeline") && read.push(it.url()));
  await page.view(`threads/${thread}?tab=timeline`, "turn 4");
  await becomes(() => page.tab.getByText("= ").count(), 3);
  assert.equal(new Set(read).size, 3);
  const head = page.tab.getByRole("button", { name: "echo turn 0" });
  assert.equal(await head.getAttribute("aria-expanded"), "false");
  await head.focus();
  await page.tab.keyboard.press("Enter");
  await becomes(() => page.tab.getByText("= ").count(), 4);
  assert.equal(new Set(read).size, 4);
  await page.tab.keyboard.press("j");
  await until(() => page.tab.evaluate(() => /read/.test(document.activeElement.innerText)));
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("of a turn with many nodes those around the chosen event are shown, and all on demand", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "steps 400; echo end");
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}?tab=timeline`, /^Nodes \d+ to (\d+) of \1 are shown/);
  await becomes(() => page.tab.locator(".visit").count(), 200);
  await page.tab.getByText("→ end").waitFor();
  await page.tab.evaluate(() => (location.hash += "&at=50"));
  await page.tab.locator(".event.at .seq", { hasText: /^\s*50\s*$/ }).waitFor();
  await page.sees("Nodes 1 to 200 of");
  assert.deepEqual(await page.faults("waterfall-long"), []);
  await page.button("Show all").click();
  await page.tab.getByText("→ end").waitFor();
  await until(async () => 400 < (await page.tab.locator(".visit").count()));
  await page.close();
});

test("a copied turn has no times, and says so", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "echo one; steps 2; echo two");
  await engine.again(thread, "echo three");
  const { data } = await engine.api("GET", `/v1/threads/${thread}/events`);
  const fork = await engine.api("POST", `/v1/threads/${thread}/fork`, { at: data.at(-1).seq });
  const page = await Page.open(browser, engine);
  await page.view(`threads/${fork.id}?tab=timeline`, "Forked from");
  await page.sees("This turn was copied");
  assert.deepEqual(page.problems, []);
  await page.close();
});

for (const width of WIDTHS)
  test(`a waterfall is sound at ${width} px`, options, async () => {
    const { thread_id: thread, id } = await engine.turn("probe", "flaky 1; echo done");
    const real = await engine.api("GET", `/v1/turns/${id}/timeline`);
    const { data } = await engine.api("GET", `/v1/threads/${thread}/events`);
    const asked = data.find((it) => it.kind === "asked").seq;
    const tries = [attempt(0, 5, 60, false), attempt(0, 80, 400), attempt(1, 5, 300), attempt(2, 5, 90)];
    const attempts = tries.map((it) => ({ ...it, asked_seq: asked }));
    const takeovers = [{ seq: 2, at_ms: 200, from: "worker-with-a-long-name-1", worker: "worker-with-a-long-name-2" }];
    const faults = [];
    for (const theme of ["light", "dark"]) {
      const page = await Page.open(browser, engine, { width, theme });
      await page.tab.route(/\/timeline$/, (route) => route.fulfill({ json: { ...real, attempts, takeovers } }));
      await page.view(`threads/${thread}?tab=timeline`, "critical path");
      await page.sees("to spare");
      faults.push(...(await page.faults("waterfall")));
      await page.close();
    }
    assert.deepEqual(faults, []);
  });
