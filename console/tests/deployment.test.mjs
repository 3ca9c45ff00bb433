/** A deployment as it runs in production: an API and two workers as processes, on PostgreSQL and Redis. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Deployment } from "./deployment.mjs";
import { durations, rounding } from "./durations.mjs";
import { openBrowser, Page, until } from "./harness.mjs";

let deployment, browser;

before(async () => {
  browser = await openBrowser();
  deployment = await Deployment.start(["first"]);
});

after(async () => {
  await browser?.close();
  await deployment?.stop();
});

const options = { timeout: 300_000 };

/** The status of the thread that a page shows. */
const status = (page, text) => page.tab.locator("main .badge").filter({ hasText: text }).first();

/** The row of a worker on the overview. */
const row = (page, name) => page.tab.getByRole("row").filter({ hasText: name });

test(
  "a worker is killed while its turn is watched: the page says so, and another one completes it",
  options,
  async () => {
    const [page, overview] = await Promise.all([Page.open(browser, deployment), Page.open(browser, deployment)]);
    await overview.view("", "Is it flowing?");
    await row(overview, "first").getByText("active").waitFor();
    // Longer than two pages and a worker need to start on a busy machine: the turn runs when its worker is killed.
    const input = "echo before; wait 20; echo after the worker was killed";
    const { thread_id: thread, id } = await deployment.api("POST", "/v1/turns", { strategy: "probe", input });
    await until(async () => (await deployment.api("GET", `/v1/turns/${id}`)).status === "running");
    await page.view(`threads/${thread}?tab=timeline`, "Timeline");
    await page.tab.getByText("live", { exact: true }).waitFor();
    await status(page, "busy").waitFor();
    // A reload would lose this mark.
    const pages = [page, overview];
    await Promise.all(pages.map(({ tab }) => tab.evaluate(() => (document.title = "not reloaded"))));
    // Only the first worker can hold the job.
    await deployment.work("second");
    const waits = page.tab.locator("main header p.warn");
    assert.equal(await waits.count(), 0, "the worker renews its lease");
    const began = Date.now();
    await deployment.killWorker("first");
    const killed = Date.now();
    await waits.filter({ hasText: "Its worker does not respond: worker first no longer renews its lease" }).waitFor();
    await status(page, /^(idle|answered)$/).waitFor({ timeout: 120_000 });
    await until(async () => (await waits.count()) === 0);
    const { messages } = await deployment.api("GET", `/v1/threads/${thread}`);
    assert.match(messages.at(-1).content, /after the worker was killed/);
    assert.equal((await deployment.api("GET", `/v1/turns/${id}`)).status, "completed");
    await page.sees("second took over from first");
    const uses = page.tab.getByRole("list", { name: "Uses of the time" });
    const [dead] = durations(/no worker alive\s+.*/.exec(await uses.innerText())[0]);
    // From the death to the takeover, whenever the lease ended. The last sign of life is a little older than the kill.
    const { from, takeovers } = await deployment.api("GET", `/v1/turns/${id}/timeline`);
    const taken = Date.parse(from) + takeovers[0].at_ms;
    const range = [taken - killed - 100 - rounding(dead), taken - began + 3_000 + rounding(dead)];
    assert.ok(range[0] <= dead && dead <= range[1], `${dead} is not in ${range}`);
    await row(overview, "first").getByText("missing").waitFor({ timeout: 90_000 });
    await row(overview, "second").getByText("active").waitFor();
    assert.deepEqual(await Promise.all(pages.map(({ tab }) => tab.title())), ["not reloaded", "not reloaded"]);
    assert.deepEqual([...(await page.faults("taken-over")), ...(await overview.faults("worker-missing"))], []);
    await Promise.all(pages.map((it) => it.close()));
  },
);

test("a batch is uploaded and watched to its end by two workers", options, async () => {
  await deployment.work("third");
  const page = await Page.open(browser, deployment);
  await page.view("batches", "Drop a file of lines");
  const line = (nth) => ({
    custom_id: `line-${nth}`,
    method: "POST",
    url: "/v1/turns",
    body: { strategy: "probe", input: nth % 20 ? `wait 1; echo said ${nth}` : "fail no paper" },
  });
  const file = Array.from({ length: 60 }, (_, nth) => JSON.stringify(line(nth))).join("\n");
  await page.tab
    .locator("input[type=file]")
    .setInputFiles({ name: "lines.jsonl", mimeType: "application/x-ndjson", buffer: Buffer.from(file) });
  await page.sees("60 lines");
  await page.button("Start the batch").click();
  await page.sees("Failures by cause");
  await page.sees("60 of 60", 120_000);
  await page.sees("no paper");
  assert.deepEqual(await page.faults("batch-of-a-deployment"), []);
  await page.close();
});

test("an approval is answered and its writes are made", options, async () => {
  const { thread_id: thread } = await deployment.turn(
    "action_plan",
    "Welcome Ben Dale (ben.dale@example.org) on 2026-12-24 at 16",
  );
  const page = await Page.open(browser, deployment);
  await page.view("inbox?kind=approval", "The plan");
  await page.tab.locator("main [data-row]").first().click();
  await page.sees("calendar.book");
  await page.button("Approve").click();
  await page.sees("Approved");
  await until(async () => (await deployment.api("GET", `/v1/threads/${thread}`)).log_status === "idle");
  const { messages } = await deployment.api("GET", `/v1/threads/${thread}`);
  assert.match(messages.at(-1).content, /^Done/);
  assert.deepEqual(await page.faults("approval-of-a-deployment"), []);
  await page.close();
});
