/** Batches: their names, their results searched, and one batch against another. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { becomes, Page, until, WIDTHS } from "./harness.mjs";
import { setUpWith } from "./sources.mjs";

let engine, browser, lib;
setUpWith("lib/pairs.ts", (it) => ({ engine, browser, lib } = it));

const options = { timeout: 180_000 };

/** Runs a batch with these inputs to its end. */
async function run(inputs, metadata = {}, filename = "lines.jsonl") {
  const lines = inputs.map((input, nth) =>
    JSON.stringify({ custom_id: `order-${nth}`, method: "POST", url: "/v1/turns", body: { strategy: "probe", input } }),
  );
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new Blob([lines.join("\n")]), filename);
  const file = await (await fetch(`${engine.url}/v1/files`, { method: "POST", body: form })).json();
  const body = { input_file_id: file.id, endpoint: "/v1/turns", completion_window: "24h", metadata };
  const { id } = await engine.api("POST", "/v1/batches", body);
  await until(async () => (await engine.api("GET", `/v1/batches/${id}`)).status === "completed");
  return id;
}

const line = (name, text, more = {}) => ({
  n: 1,
  id: name,
  name,
  status: "completed",
  text,
  usd: 0,
  tokens: 0,
  at: 0,
  ...more,
});

test("lines are paired by their names, and clocks and ids do not count", () => {
  const id = (end) => `id 01a21ba7-6fc7-77b2-8520-ad902420619${end}`;
  const pairs = lib.pairsOf(
    [line("a", id(1)), line("b", "two"), line("c", "x")],
    [line("b", "2", { status: "failed", usd: 0.5 }), line("a", id(2)), line("d", "y")],
  );
  assert.deepEqual(
    pairs.map((it) => [it.name, it.isAnswerOther, it.isEndOther, it.more]),
    [
      ["a", false, false, 0],
      ["b", true, true, 0.5],
      ["c", true, true, 0],
      ["d", true, true, 0],
    ],
  );
});

test("a file of values is safe in a spreadsheet", () => {
  assert.equal(lib.cell('say "no", then'), '"say ""no"", then"');
  assert.equal(lib.cell("=HYPERLINK(1)"), "'=HYPERLINK(1)");
  assert.equal(lib.cell("two\nlines"), '"two\nlines"');
  assert.equal(lib.cell(-0.5), "-0.5");
});

test("a batch is named by its metadata or its file, and its lines over time", options, async () => {
  const batch = await run(["echo hi", "wait 4; echo late"], { name: "Nightly orders" }, "orders.jsonl");
  const other = await run(["echo hi"], {}, "refunds.jsonl");
  const page = await Page.open(browser, engine);
  await page.view("batches", "Nightly orders");
  await page.sees("refunds.jsonl");
  assert.deepEqual(await page.faults("batches-named"), []);
  await page.view(`batches/${batch}`, "orders.jsonl ·");
  await page.tab.getByRole("heading", { name: "Nightly orders" }).waitFor();
  const plot = page.tab.getByRole("region", { name: "Over time" });
  await plot.getByRole("img", { name: /lines that ended: 2, failed: 0\b/ }).waitFor();
  // The last bar is left out, and with it the line that was late.
  await page.tab.getByRole("slider", { name: "Last moment" }).focus();
  await page.tab.keyboard.press("ArrowLeft");
  await page.tab.keyboard.press("Enter");
  await page.sees("1 of 2 match");
  await page.tab.waitForURL(/range=.*Z\.\./);
  assert.deepEqual(await page.faults("batch-part"), []);
  await page.view(`batches/${other}`, "refunds.jsonl");
  await page.close();
});

test("batches are ordered by failed lines, last change and cost, from their headings", options, async () => {
  const worst = await run(["fail a", "fail b", "fail c"], { name: "Worst" });
  const latest = await run(["echo hi"], { name: "Latest" });
  const page = await Page.open(browser, engine);
  const first = async () => (await page.tab.locator("main a[data-row]").first().getAttribute("href")).split("/").at(-1);
  const heading = (name) => page.tab.locator(".names").getByRole("columnheader", { name });
  await page.view("batches", "Worst");
  await until(async () => (await first()) === latest);
  assert.equal(await heading("Created").getAttribute("aria-sort"), "descending");
  await heading("Failed").getByRole("button").click();
  await page.sees("Ordered are the newest 10,000.");
  const [most] = (await engine.api("GET", "/v1/batches?order=failed&limit=1")).data;
  await until(async () => (await first()) === most.id);
  assert.ok(3 <= most.request_counts.failed, worst);
  assert.match(await page.button("Copy command").getAttribute("title"), /batch list --order failed$/);
  await heading("Failed").getByRole("button").click();
  const [fewest] = (await engine.api("GET", "/v1/batches?order=failed_asc&limit=1")).data;
  await until(async () => (await first()) === fewest.id);
  assert.equal(await heading("Failed").getAttribute("aria-sort"), "ascending");
  await heading("Changed").getByRole("button").click();
  await until(async () => (await first()) === latest);
  assert.deepEqual(await page.faults("batches-ordered"), []);
  await page.close();
});

test("results are searched by names and words, and narrowed by their ends", options, async () => {
  const inputs = Array.from({ length: 130 }, (_, nth) => (nth % 40 ? `echo parcel ${nth}` : `fail printer ${nth}`));
  const batch = await run(inputs);
  const page = await Page.open(browser, engine);
  await page.view(`batches/${batch}`, "50 of 130");
  const region = page.tab.getByRole("region", { name: "Results" });
  await region.getByRole("searchbox").fill("order-7");
  await page.sees("11 of 130 match");
  await region.getByRole("searchbox").fill("PARCEL 12");
  await page.sees("11 of 130 match");
  await region.getByRole("searchbox").fill("parcel order-129");
  await page.sees("1 of 130 match");
  const link = region.getByRole("link", { name: "order-129" });
  assert.match(await link.getAttribute("href"), /^#\/threads\/[0-9a-f-]{36}$/);
  await region.getByRole("searchbox").fill("");
  await region.getByRole("button", { name: "failed 4" }).click();
  await page.sees("4 of 130 match");
  await page.tab.reload();
  await page.sees("4 of 130 match");
  await region.getByRole("searchbox").fill("nothing of the kind");
  await page.button("Show all results").click();
  await page.sees("50 of 130");
  assert.deepEqual(await page.faults("batch-searched"), []);
  await page.close();
});

test("batches are not compared before the results of both are read", options, async () => {
  const [left, right] = [await run(["echo a", "echo b"]), await run(["echo a", "echo c"])];
  const page = await Page.open(browser, engine);
  let isDown = true;
  await page.tab.route(new RegExp(`${left}/results`), (route) =>
    isDown
      ? route.fulfill({ status: 503, json: { title: "Down", status: 503, detail: "No results now" } })
      : route.continue(),
  );
  await page.view(`batches/${left}/diff/${right}?kind=all`, "No results now");
  await page.sees("Nothing is compared until");
  assert.equal(await page.tab.getByText("only right").count(), 0);
  isDown = false;
  await page.button("Try again").click();
  await page.sees("2 lines by their custom_id");
  await becomes(() => page.tab.locator("tbody tr").count(), 2);
  await page.close();
});

test("a failed read of results says so, and is repeated on demand", options, async () => {
  const batch = await run(["echo a", "echo b"]);
  const page = await Page.open(browser, engine);
  let isDown = true;
  await page.tab.route(/\/results/, (route) =>
    isDown ? route.fulfill({ status: 503, json: { detail: "No results now" } }) : route.continue(),
  );
  await page.view(`batches/${batch}`, "No results now");
  isDown = false;
  await page.button("Try again").click();
  await page.sees("order-1");
  await page.gone("No results now");
  await page.close();
});

test("results that end while others are read appear", options, async () => {
  const batch = await run(["echo a", "echo b", "echo c"]);
  const page = await Page.open(browser, engine);
  const real = await engine.api("GET", `/v1/batches/${batch}`);
  let known = 1;
  await page.tab.route(new RegExp(`/v1/batches/${batch}$`), (route) =>
    route.fulfill({ json: { ...real, status: "in_progress", turnfold: { ...real.turnfold, results: known } } }),
  );
  let release;
  const held = new Promise((done) => (release = done));
  await page.tab.route(/\/results/, async (route) => (await held, route.continue()));
  await page.view(`batches/${batch}`, "The results are being read.");
  known = 3;
  await page.tab.waitForResponse((it) => it.url().endsWith(batch));
  await page.tab.waitForResponse((it) => it.url().endsWith(batch));
  release();
  await becomes(() => page.tab.getByRole("region", { name: "Results" }).locator("tbody tr").count(), 3);
  await page.close();
});

for (const width of WIDTHS)
  test(`two batches are compared line by line at ${width} px`, options, async () => {
    const left = await run(["echo the box is red", "echo same", "echo fine", "fail no paper 7"], { name: "Before" });
    const right = await run(["echo the box is blue", "echo same", "fail no ink", "fail no paper 7"], { name: "After" });
    const page = await Page.open(browser, engine, { width, theme: width === 768 ? "dark" : "light" });
    await page.view("batches", "After");
    await page.tab.getByLabel(`Choose batch ${left} to compare`).check();
    await page.tab.getByLabel(`Choose batch ${right} to compare`).click();
    await page.sees("4 lines by their custom_id");
    await page.tab.getByRole("tab", { name: "Other answer 2" }).waitFor();
    const table = page.tab.getByRole("region", { name: "Lines" });
    await becomes(async () => (await table.locator("del").allInnerTexts()).slice(0, 1), ["red"]);
    await becomes(async () => (await table.locator("ins").allInnerTexts()).slice(0, 1), ["blue"]);
    assert.deepEqual(await page.faults("batches-compared"), []);
    await page.tab.getByRole("tab", { name: "Other end 1" }).click();
    const names = async () => (await table.getByRole("link").allInnerTexts()).map((it) => it.trim());
    await becomes(names, ["order-2"]);
    await page.tab.getByRole("tab", { name: "All lines 4" }).click();
    await table.getByRole("button", { name: "End" }).click();
    await until(async () => (await table.getByRole("link").first().innerText()).trim() === "order-2");
    const saved = page.tab.waitForEvent("download");
    await page.button("Download CSV").click();
    const text = readFileSync(await (await saved).path(), "utf8").split("\r\n");
    assert.match(text[0], /^custom_id,answer_changed,end_changed,/);
    assert.match(text[1], /^order-2,true,true,answered,failed,/);
    assert.equal(text.length, 6);
    await table.getByRole("link", { name: "order-0" }).click();
    await page.sees("Clocks and ids do not count.");
    assert.deepEqual(page.problems, []);
    await page.close();
  });
