/** A run as one HTML page: it needs no network, shows the state at any event, and verifies its own log. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { inaccessible } from "./axe.mjs";
import { Page, setUp, TURNFOLD, WIDTHS } from "./harness.mjs";
import { newFolder } from "./processes.mjs";

const run = promisify(execFile);
const folder = newFolder("run");
let engine, browser, thread, html, redacted;

/** Saves the run that a page shows, and returns the file. */
async function saved(page, thread, isRedacted) {
  await page.button("Save as page").click();
  await page.tab.getByLabel(isRedacted ? "Without contents" : "With all contents").check();
  const download = page.tab.waitForEvent("download");
  await page.button("Save").click();
  const file = await download;
  assert.equal(file.suggestedFilename(), `${thread}${isRedacted ? "-redacted" : ""}.html`);
  await page.tab.getByRole("dialog").waitFor({ state: "detached" });
  return readFileSync(await file.path(), "utf8");
}

setUp(async (it) => {
  ({ engine, browser } = it);
  const hostile = "</script><img src=x onerror=alert(1)>\u{202e}";
  ({ thread_id: thread } = await engine.turn("probe", `echo one ${hostile}; steps 3; flaky 1; echo two`));
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}`, "Conversation");
  html = await saved(page, thread, false);
  redacted = await saved(page, thread, true);
  assert.deepEqual(page.problems, []);
  await page.close();
});

/** Opens the page as a file, without a network. */
async function open(text, width = 1280, colorScheme = "light") {
  writeFileSync(join(folder, "run.html"), text);
  const context = await browser.newContext({ offline: true, viewport: { width, height: 900 }, colorScheme });
  const tab = await context.newPage();
  const problems = [];
  tab.on("console", (it) => it.type() === "error" && problems.push(it.text()));
  tab.on("pageerror", (it) => problems.push(it.message));
  tab.on("request", (it) => it.url().startsWith("file:") || problems.push(it.url()));
  await tab.goto(`file://${folder}/run.html`);
  if (await tab.locator("#proof").isHidden()) assert.fail(`the page has no proof: ${problems}`);
  return { tab, problems, close: () => context.close() };
}

test("the page verifies its log, and shows the thread at any event", { timeout: 120_000 }, async () => {
  assert.ok(html.length < 300 * 1_024, String(html.length));
  const { tab, problems, close } = await open(html);
  await tab.getByText("is intact").waitFor();
  assert.equal(await tab.locator("img").count(), 0);
  await tab.getByText(/^turn of [\d.]+ m?s: .*engine [\d.]+ m?s/).waitFor();
  const last = Number(await tab.getByRole("slider").inputValue());
  assert.equal(await tab.locator(".event").count(), last + 1);
  assert.equal(await tab.locator(".message.later").count(), 0);
  const state = await tab.locator("#state").innerText();
  await tab.getByRole("slider").fill("2");
  await tab.getByText(`event 2 of ${last}`).waitFor();
  assert.equal(await tab.locator(".message.later").count(), 1);
  assert.notEqual(await tab.locator("#state").innerText(), state);
  await tab.locator(".event summary").nth(1).click();
  await tab.getByText('"kind": "new"').waitFor();
  const text = await tab.evaluate(() => document.body.innerText);
  assert.ok(!text.includes("\u{202e}") && text.includes("onerror"), text);
  assert.deepEqual(problems, []);
  await close();
});

test("the command line writes the same pages", { timeout: 120_000 }, async () => {
  const printed = async (...args) =>
    (await run(TURNFOLD, ["--url", engine.url, "thread", "export", thread, "--html", ...args])).stdout;
  // A hidden character is an escape on a terminal, with the same value in JSON.
  const dataOf = (text) => JSON.parse(/id="run">(.*?)<\/script>/s.exec(text)[1]);
  assert.deepEqual(dataOf(await printed()), dataOf(html));
  assert.deepEqual(dataOf(await printed("--redact")), dataOf(redacted));
  const { tab, problems, close } = await open(await printed());
  await tab.getByText("is intact").waitFor();
  assert.deepEqual(problems, []);
  await close();
});

test("a changed page says so", { timeout: 120_000 }, async () => {
  const changed = html.replace(/(\[1,\d+,\\?"turn_started\\?",[^\n]*?)echo one/, "$1echo 0ne");
  assert.notEqual(changed, html);
  const { tab, close } = await open(changed);
  await tab.getByText("is broken at event 1").waitFor();
  await close();
});

test("a page without contents has none, and says that it proves nothing", { timeout: 120_000 }, async () => {
  const data = (text) => /id="run">(.*?)<\/script>/s.exec(text)[1];
  for (const word of ["onerror", "echo one", "two", "Done"]) assert.ok(!data(redacted).includes(word), word);
  const hash = JSON.parse(data(html)).log.at(-1)[4];
  assert.deepEqual(redacted.match(/[0-9a-f]{64}/g), [hash]);
  const { tab, problems, close } = await open(redacted);
  await tab.getByText("cannot verify the hash chain").waitFor();
  await tab.getByText("Not in this page.").waitFor();
  await tab.getByText("[left out: ").first().waitFor();
  assert.equal(await tab.locator(".message").count(), 2);
  await tab.locator(".event summary").nth(1).click();
  await tab.getByText('"kind": "new"').waitFor();
  assert.deepEqual(problems, []);
  await close();
});

test("a long run is at most 300 KiB and its contents", { timeout: 120_000 }, async () => {
  const { thread_id: thread } = await engine.turn("probe", "steps 300; echo end");
  const log = await (await fetch(`${engine.url}/v1/threads/${thread}/export`)).text();
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}`, "Conversation");
  const text = await saved(page, thread, false);
  assert.ok(text.length < 300 * 1_024 + 2 * log.length, `${text.length} ${log.length}`);
  await page.close();
});

for (const width of WIDTHS)
  test(`the page is sound at ${width} px`, { timeout: 120_000 }, async () => {
    for (const theme of ["light", "dark"]) {
      const { tab, close } = await open(html, width, theme);
      await tab.getByText("is intact").waitFor();
      if (process.env.CONSOLE_SHOTS)
        await tab.screenshot({ path: join(process.env.CONSOLE_SHOTS, `run-${width}-${theme}.png`), fullPage: true });
      assert.ok((await tab.evaluate(() => document.documentElement.scrollWidth)) <= width);
      // Its own policy lets no script in but its own, so the checks run by the debugger.
      assert.deepEqual(await inaccessible(tab), []);
      await close();
    }
  });
