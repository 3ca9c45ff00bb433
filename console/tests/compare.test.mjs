/** Two threads side by side: aligned by node, with the words that differ, and what is the same folded. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { becomes, Page, WIDTHS } from "./harness.mjs";
import { setUpWith } from "./sources.mjs";

let engine, browser, lib;
setUpWith("lib/words.ts", (it) => ({ engine, browser, lib } = it), { demo: true });

const options = { timeout: 180_000 };
const region = (page, name) => page.tab.getByRole("region", { name });

test("words that differ are found, and both texts stay whole", () => {
  const shown = (pieces) => pieces.map((it) => (it.isSame ? it.text : `[${it.text}]`)).join("");
  const both = (left, right) => lib.words(left, right).map(shown);
  assert.deepEqual(both("Book a call with Hugo", "Book a long call with Ann"), [
    "Book a call with [Hugo]",
    "Book a [long ]call with [Ann]",
  ]);
  assert.deepEqual(both("", "new"), ["", "[new]"]);
  let seed = 7;
  const random = (most) => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % most;
  const text = () => Array.from({ length: random(40) }, () => "ab cd e.,"[random(9)]).join("");
  for (let nth = 0; nth < 2_000; nth += 1) {
    const [left, right] = [text(), text()];
    const [old, now] = lib.words(left, right);
    const joined = (pieces) => pieces.map((it) => it.text).join("");
    assert.deepEqual([joined(old), joined(now)], [left, right]);
    const same = (pieces) => joined(pieces.filter((it) => it.isSame));
    assert.equal(same(old), same(now));
  }
});

test("clocks and ids are equal, days and amounts are not", () => {
  const differ = (left, right) => lib.words(left, right)[0].some((it) => !it.isSame);
  for (const [left, right] of [
    ["at 2026-12-03T09:00:00Z", "at 2026-12-04T10:30:00.125Z"],
    ["at 12:03:04.120", "at 13:00:00"],
    ["id 01a21ba7-6fc7-77b2-8520-ad9024206195", "id 01a21ba7-6fc7-77b2-8520-ad9024206196"],
    ["plan 48974471899354ee", "plan 710f7d452fab20b1"],
  ]) {
    assert.ok(!differ(left, right), left);
    assert.equal(lib.blanked(left), lib.blanked(right));
  }
  for (const [left, right] of [
    ["on 2026-12-24", "on 2026-12-25"],
    ["at 12", "at 13"],
    ["EUR 9000", "EUR 9001"],
  ])
    assert.ok(differ(left, right), left);
});

test("long texts with little in common are compared in bounded time", () => {
  const long = (name) => Array.from({ length: 20_000 }, (_, nth) => `${name}${nth}`).join(" ");
  // The time of the processor: what else the machine does is not counted.
  const began = process.cpuUsage();
  lib.words(long("left"), long("right"));
  assert.ok(process.cpuUsage(began).user < 5_000_000);
});

test("two rows of a list are compared", options, async () => {
  const same = "the same words, again and again, ".repeat(20);
  const left = await engine.turn("probe", `echo ${same} quick; steps 2; echo fox`);
  const right = await engine.turn("probe", `echo ${same} slow; steps 2; echo fox`);
  const page = await Page.open(browser, engine);
  await page.view("threads", "shown");
  await page.tab.getByLabel(`Choose thread ${left.thread_id} to compare`).check();
  await page.sees("Choose another thread: the two are then compared.");
  assert.deepEqual(await page.faults("threads-chosen"), []);
  await page.tab.getByLabel(`Choose thread ${right.thread_id} to compare`).click();
  await page.tab.waitForURL(new RegExp(`${left.thread_id}/diff/${right.thread_id}`));
  await page.sees("Clocks and ids do not count.");
  const value = page.tab.locator(".value").first();
  await becomes(() => value.locator("del").allInnerTexts(), ["quick"]);
  await becomes(() => value.locator("ins").allInnerTexts(), ["slow"]);
  assert.match(await value.innerText(), /… \d+ words …/);
  const short = (await value.innerText()).length;
  await value.getByRole("button", { name: "Show the whole text" }).click();
  await becomes(async () => short + 500 < (await value.innerText()).length, true);
  // The steps in between are the same, and folded with their nodes.
  await page.tab.locator("summary", { hasText: "the same" }).first().waitFor();
  await page.view("turns", "shown");
  await page.tab.getByLabel(`Choose turn ${left.id} to compare`).check();
  await page.tab.getByLabel(`Choose turn ${right.id} to compare`).click();
  await page.tab.waitForURL(new RegExp(`${left.thread_id}/diff/${right.thread_id}`));
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a fork is compared with its origin by one click", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "ask Which colour? | red | green; echo done");
  await engine.api("POST", `/v1/inbox/${thread}`, { type: "respond", args: "red" });
  const asked = (await engine.api("GET", `/v1/threads/${thread}/events`)).data.find((it) => it.event.to?.interrupt);
  const fork = await engine.api("POST", `/v1/threads/${thread}/fork`, { at: asked.seq, answer: "green" });
  // A comparison is of what both logs have when it is opened.
  for (const it of [thread, fork.id]) await engine.rest(it);
  const page = await Page.open(browser, engine);
  await page.view(`threads/${fork.id}`, "Forked from");
  await page.tab.getByRole("link", { name: "Compare with the origin" }).click();
  await page.sees(`forked from the other after event ${asked.seq}`);
  await page.tab.locator("del", { hasText: "red" }).first().waitFor();
  await page.tab.locator("ins", { hasText: "green" }).first().waitFor();
  await page.tab.locator("summary", { hasText: "the same" }).first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("prompts and answers of models are compared by their words", options, async () => {
  const ask = (text) => engine.turn("planner", text);
  const left = await ask("Book a walk on 2026-12-30 at 15");
  const right = await ask("Book a swim on 2026-12-30 at 15");
  const page = await Page.open(browser, engine);
  await page.view(`threads/${left.thread_id}/diff/${right.thread_id}`, "Clocks and ids do not count.");
  await region(page, "Node plan").first().waitFor();
  await page.sees("answer");
  await page.tab.locator("del", { hasText: "walk" }).first().waitFor();
  await page.tab.locator("ins", { hasText: "swim" }).first().waitFor();
  const marked = (await page.tab.locator("del").allInnerTexts()).join("\n");
  assert.ok(!/\d{4}-\d\d-\d\dT/.test(marked), marked);
  await page.close();
});

test("threads that did the same have no differences", options, async () => {
  const [left, right] = [await engine.turn("probe", "echo twice"), await engine.turn("probe", "echo twice")];
  const page = await Page.open(browser, engine);
  await page.view(`threads/${left.thread_id}/diff/${right.thread_id}`, "No differences");
  await page.close();
});

for (const width of WIDTHS)
  test(`a comparison is sound at ${width} px`, options, async () => {
    const left = await engine.turn("action_plan", "Welcome Ben Dale (ben.dale@example.org) on 2026-12-24 at 16");
    const right = await engine.turn("action_plan", "Welcome Ann Lee (ann.lee@example.org) on 2026-12-24 at 17");
    const faults = [];
    for (const theme of ["light", "dark"]) {
      const page = await Page.open(browser, engine, { width, theme });
      await page.view(`threads/${left.thread_id}/diff/${right.thread_id}`, "Clocks and ids do not count.");
      faults.push(...(await page.faults("compare")));
      await page.close();
    }
    assert.deepEqual(faults, []);
  });

for (const width of WIDTHS)
  test(`two turns of one thread are compared at ${width} px`, options, async () => {
    const left = await engine.turn("probe", "steps 2; echo the quick fox");
    const right = await engine.again(left.thread_id, "steps 2; echo the slow fox; wait 1");
    const page = await Page.open(browser, engine, { width, theme: width === 768 ? "dark" : "light" });
    await page.view("turns", "shown");
    await page.tab.getByLabel(`Choose turn ${left.id} to compare`).check();
    await page.tab.getByLabel(`Choose turn ${right.id} to compare`).click();
    await page.tab.waitForURL(new RegExp(`turns/${left.id}/diff/${right.id}`));
    await page.sees("Clocks, ids and the place in the conversation do not count.");
    await page.tab.locator("del", { hasText: "quick" }).first().waitFor();
    await page.tab.locator("ins", { hasText: "slow" }).first().waitFor();
    await page.tab.locator("summary", { hasText: "the same" }).first().waitFor();
    // The node that only the right turn has.
    await region(page, "Node wait").waitFor();
    assert.deepEqual(await page.faults("compare-turns"), []);
    await page.close();
  });
