/** The overview: counts of the whole deployment over a period, causes of failures and cost. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Engine, Page, setUp, until, WIDTHS } from "./harness.mjs";

let engine, idle, browser;
setUp(
  async (it) => {
    ({ engine, browser } = it);
    idle = await Engine.start();
  },
  { demo: true },
);
after(() => idle?.stop());

const options = { timeout: 180_000 };
const stats = (range) => engine.api("GET", `/v1/stats?range=${range}`);
const day = () => new Date().toISOString().slice(0, 10);
/** The day on which the demo began. After a midnight, its turns are not those of today. */
const began = day();

test("turns, causes and cost of each period", options, async () => {
  await engine.turn("probe", "fail the printer is out of paper");
  await until(async () => (await stats("hour")).causes.some((it) => it.cause.includes("out of paper")));
  const hour = await stats("hour");
  assert.ok(hour.usage.some((it) => it.strategy === "planner_with_prompts" && it.responses > 0));
  const page = await Page.open(browser, engine);
  await page.view("", "What fails?");
  for (const [name, range] of [
    ["last hour", "hour"],
    ["today, UTC", "today"],
    ["last week", "week"],
  ]) {
    await page.tab.getByRole("tab", { name }).click();
    await page.tab.waitForURL(new RegExp(`range=${range}`));
    await page.sees(`ended, ${name}`);
    if (range === "today" && day() !== began) continue;
    await page.sees("out of paper");
    await page.sees("planner_with_prompts");
  }
  await page.tab.getByRole("tab", { name: "last hour" }).click();
  await page.sees("ended, last hour");
  const ended = Object.values((await stats("hour")).ended).reduce((sum, it) => sum + it, 0);
  await page.sees(`${new Intl.NumberFormat("en").format(ended)} turns ended`);
  await page.tab.reload();
  await page.sees("ended, last hour");
  const canvas = page.tab.locator(".plot canvas").first();
  // The bar of the current minute is drawn.
  await until(() =>
    canvas.evaluate((it) => {
      const { data } = it.getContext("2d").getImageData(0, 0, it.width, it.height);
      return 100 < data.filter((_, at) => at % 4 === 0 && data[at + 3] && data[at + 1] > data[at] + 30).length;
    }),
  );
  assert.match(await page.button("Copy command").getAttribute("title"), /stats --range hour$/);
  await page.tab.getByText("out of paper").first().click();
  await page.tab.waitForURL(/turns\?where=/);
  await page.sees("fail the printer is out of paper");
  assert.deepEqual(await page.faults("overview-cause"), []);
  await page.close();
});

test("turns and steps a second, of all workers and of each", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("", "Is it flowing?");
  const figure = (name) => page.tab.locator("dl.figures div").filter({ hasText: name }).locator("dd");
  // The demo killed workers, whose last reports remain; the one that runs started last.
  const started = (a, b) => Date.parse(a.started_at) - Date.parse(b.started_at);
  const reported = async () => (await engine.api("GET", "/v1/workers")).data.toSorted(started).at(-1).steps_per_second;
  /** Works until a rate is above zero: at rest, it returns to zero before the page reads it. That of turns is of a whole minute. */
  const work = (rate) =>
    until(async () => {
      await engine.turn("probe", "echo one; echo two; echo three");
      return 0 < Number(await rate());
    }, 150_000);
  await work(reported);
  await work(() => figure("Steps a second").innerText());
  await page.tab.getByRole("columnheader", { name: "Steps/s" }).waitFor();
  await work(() => figure("Turns a second").innerText());
  assert.deepEqual(await page.faults("overview-rates"), []);
  await page.close();
});

for (const width of WIDTHS) {
  test(`full, empty and failing at ${width} px`, options, async () => {
    const faults = [];
    for (const theme of ["light", "dark"]) {
      const full = await Page.open(browser, engine, { width, theme });
      await full.view("?range=hour", "ended, last hour");
      faults.push(...(await full.faults("overview-full")));
      await full.close();
      const empty = await Page.open(browser, idle, { width, theme });
      await empty.view("", "No turn ended in this period");
      await empty.sees("No model responded in this period");
      faults.push(...(await empty.faults("overview-empty")));
      await empty.tab.route(/\/v1\/stats/, (route) =>
        route.fulfill({ status: 503, json: { detail: "the database does not answer", status: 503 } }),
      );
      await empty.tab.reload();
      await empty.sees("the database does not answer");
      faults.push(...(await empty.faults("overview-failing")).filter((it) => !it.includes("503")));
      await empty.close();
    }
    assert.deepEqual(faults, []);
  });
}

test("after a kill, the overview says that counts are missing", options, async () => {
  const killed = await Engine.start();
  await killed.turn("probe", "echo hello");
  await killed.kill();
  await killed.run();
  const page = await Page.open(browser, killed);
  await page.view("", "A process was killed.");
  assert.deepEqual(
    (await page.faults("overview-killed")).filter((it) => !it.includes("ERR_")),
    [],
  );
  await page.close();
  await killed.stop();
});

test("threads are filtered by their turns", options, async () => {
  await engine.turn("probe", "fail no ink");
  const page = await Page.open(browser, engine);
  await page.view("threads", "shown");
  await page.tab.keyboard.press("/");
  await page.tab.keyboard.type("error ~ 'no ink'");
  await page.tab.keyboard.press("Enter");
  await page.sees("1 shown");
  assert.match(page.tab.url(), /where=error/);
  await page.view("threads?where=error+~+nothing", "No thread matches");
  assert.deepEqual(await page.faults("threads-filtered"), []);
  await page.close();
});
