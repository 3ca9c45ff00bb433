/** Where the money and the time of a period went. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { durations, rounding } from "./durations.mjs";
import { becomes, Page, setUp, until, WIDTHS } from "./harness.mjs";

let engine, browser;
setUp((it) => ({ engine, browser } = it), { demo: true });

const options = { timeout: 180_000 };

const number = new Intl.NumberFormat("en").format;

/** Sums all pages of the API. */
async function costs() {
  const all = { turns: 0, takeovers: 0, failed: 0, top: [], groups: [] };
  for (let after = ""; after !== undefined;) {
    const page = await engine.api("GET", `/v1/costs?limit=100${after}`);
    all.turns += page.turns;
    all.takeovers += page.takeovers;
    all.failed += page.failed.attempts;
    all.top.push(...page.top);
    all.groups.push(...page.groups);
    after = page.next ? `&after=${page.next}` : undefined;
  }
  return all;
}

test("all turns of a period are counted, by strategy, model, tool and day", options, async () => {
  const all = await costs();
  assert.ok(200 < all.turns && 0 < all.takeovers && 0 < all.failed, JSON.stringify({ ...all, top: [], groups: [] }));
  const page = await Page.open(browser, engine);
  await page.view("costs", new RegExp(`^${number(all.turns)} turns of [\\d,]+ threads read\\.`));
  const table = page.tab.getByRole("region", { name: "By property" });
  const named = (by) => new Set(all.groups.filter((it) => it.by === by).map((it) => it.name));
  await becomes(() => table.locator("tbody tr").count(), named("strategy").size);
  await table.getByRole("tab", { name: "Tool" }).click();
  await table.getByText("calendar.book").waitFor();
  const heading = table.getByRole("columnheader", { name: "Responses" });
  const responses = async () =>
    (await table.locator("tbody td:nth-child(2)").allInnerTexts()).map((it) => Number(it.replaceAll(",", "")));
  await heading.getByRole("button").click();
  await becomes(() => heading.getAttribute("aria-sort"), "descending");
  const counts = await responses();
  assert.deepEqual(
    counts,
    counts.toSorted((a, b) => b - a),
  );
  await heading.getByRole("button").click();
  await becomes(() => heading.getAttribute("aria-sort"), "ascending");
  const rising = await responses();
  assert.deepEqual(
    rising,
    rising.toSorted((a, b) => a - b),
  );
  const booked = all.groups.filter((it) => it.by === "tool" && it.name === "calendar.book");
  const sum = booked.reduce((total, it) => total + it.tool_calls, 0);
  await table.locator("tr", { hasText: "calendar.book" }).getByText(number(sum), { exact: true }).waitFor();
  await table.getByRole("tab", { name: "Model" }).click();
  await table.getByText("scripted/demo").first().waitFor();
  await table.getByRole("tab", { name: "Day" }).click();
  // More than one if midnight has passed since the first turn.
  const days = [...named("day")].sort();
  assert.ok(days.length, "each turn has a day");
  await becomes(async () => (await table.locator("tbody td:first-child").allInnerTexts()).sort(), days);
  const overhead = page.tab.getByRole("region", { name: "Overhead" });
  await overhead.getByText(new RegExp(`^${number(all.takeovers)} takeovers?$`)).waitFor();
  const failed = overhead.getByRole("row").filter({ has: page.tab.getByText("Failed attempts", { exact: true }) });
  await failed.getByText(new RegExp(`^${number(all.failed)} attempts?$`)).waitFor();
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("the slowest turns of all pages are listed, and lead to their time", options, async () => {
  const { top } = await costs();
  const slowest = Math.max(...top.map((it) => it.ms));
  const page = await Page.open(browser, engine);
  await page.view("costs", /threads read\./);
  const rows = page.tab.getByRole("region", { name: "Slowest turns" }).getByRole("link");
  await becomes(() => rows.count(), 10);
  const times = (await rows.locator("strong").allInnerTexts()).map((it) => durations(it)[0]);
  assert.ok(Math.abs(times[0] - slowest) <= rounding(slowest), `${times[0]} ${slowest}`);
  assert.deepEqual(
    times,
    times.toSorted((a, b) => b - a),
  );
  await page.tab.getByRole("region", { name: "Dearest turns" }).getByText("No cost and no number of tokens").waitFor();
  await rows.first().click();
  await page.tab.getByRole("list", { name: "Uses of the time" }).first().waitFor();
  await page.tab.locator(".toggle[aria-expanded=true]").first().waitFor();
  await page.close();
});

test("the dearest turns of all pages are listed by their cost", options, async () => {
  const page = await Page.open(browser, engine);
  const prices = new Map();
  await page.tab.route(/\/v1\/costs/, async (route) => {
    const json = await (await route.fetch()).json();
    // The scripted model has no price.
    for (const it of json.top) {
      const usd = prices.get(it.turn_id) ?? 0.01 * (prices.size % 17) + 1;
      prices.set(it.turn_id, usd);
      Object.assign(it.usage, { usd, responses_without_price: 0 });
    }
    await route.fulfill({ json });
  });
  await page.view("costs", /threads read\./);
  const rows = page.tab.getByRole("region", { name: "Dearest turns" }).getByRole("link");
  const shown = async () => (await rows.locator("strong").allInnerTexts()).map((it) => Number(it.replace("$", "")));
  const highest = [...prices.values()].sort((a, b) => b - a).slice(0, 10);
  await becomes(
    shown,
    highest.map((it) => Number(it.toFixed(2))),
  );
  await page.close();
});

test("reading stops on demand and goes on", options, async () => {
  const page = await Page.open(browser, engine);
  let release;
  const held = new Promise((done) => (release = done));
  await page.tab.route(/\/v1\/costs\?.*after=/, async (route) => (await held, route.continue().catch(() => {})));
  await page.view("costs", "read…");
  await page.button("Stop").click();
  await page.sees("Older ones are not counted yet");
  release();
  await page.button("Read on").click();
  await page.sees(/threads read\./);
  await until(async () => (await page.button("Read on").count()) === 0);
  await page.close();
});

test("a period of costs has an end too, in the address", options, async () => {
  const page = await Page.open(browser, engine);
  const at = (ms) => new Date(Date.now() + ms).toISOString().slice(0, 19) + "Z";
  const range = `${at(-86_400_000)}..${at(3_600_000)}`;
  const asked = page.tab.waitForRequest((it) => /\/v1\/costs\?/.test(it.url()));
  await page.view(`costs?range=${range}`, /turns of \d+ threads read\./);
  const params = new URL((await asked).url()).searchParams;
  assert.deepEqual(
    ["since", "until"].map((it) => Date.parse(params.get(it))),
    range.split("..").map((it) => Date.parse(it)),
  );
  assert.match(await page.button("Copy command").getAttribute("title"), /--where 'updated > .* and updated < /);
  await page.tab.getByLabel("Until").fill("2020-01-01T00:00:00");
  await page.tab.getByLabel("Until").blur();
  await page.sees(/^0 turns of 0 threads read|Nothing ran in this period/);
  await page.tab.getByLabel("Period").selectOption("any time");
  await page.tab.waitForURL(/range=ever/);
  await page.sees(/^[1-9]\d* turns of \d+ threads read\./);
  await page.tab.getByLabel("Period").selectOption("last day");
  await until(async () => !page.tab.url().includes("range="));
  assert.equal(await page.tab.getByLabel("Period").inputValue(), "day");
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a period in which nothing ran says what to do", options, async () => {
  const page = await Page.open(browser, engine);
  const none = await engine.api("GET", "/v1/costs?since=2999-01-01T00:00:00Z");
  await page.tab.route(/\/v1\/costs/, (route) => route.fulfill({ json: none }));
  await page.view("costs?range=hour", "Nothing ran in this period");
  assert.deepEqual(await page.faults("costs-empty"), []);
  await page.close();
});

for (const width of WIDTHS)
  test(`costs are sound at ${width} px`, options, async () => {
    const faults = [];
    for (const theme of ["light", "dark"]) {
      const page = await Page.open(browser, engine, { width, theme });
      await page.view("costs?by=tool", /threads read\./);
      faults.push(...(await page.faults("costs")));
      await page.close();
    }
    assert.deepEqual(faults, []);
  });
