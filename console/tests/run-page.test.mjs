/** A run as one HTML page: it needs no network, shows the state at any event, and verifies its own log. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { inaccessible } from "./axe.mjs";
import { Engine, openBrowser, Page, WIDTHS } from "./harness.mjs";

let engine, browser, folder, html;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "run-"));
  [engine, browser] = await Promise.all([Engine.start(), openBrowser()]);
  const hostile = "</script><img src=x onerror=alert(1)>\u{202e}";
  const { thread_id: thread } = await engine.turn("probe", `echo one ${hostile}; steps 3; echo two`);
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}`, "Conversation");
  const saved = page.tab.waitForEvent("download");
  await page.button("Save as page").click();
  const download = await saved;
  assert.equal(download.suggestedFilename(), `${thread}.html`);
  html = readFileSync(await download.path(), "utf8");
  assert.deepEqual(page.problems, []);
  await page.close();
});

after(async () => {
  await browser.close();
  await engine.stop();
  rmSync(folder, { recursive: true });
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
  return { tab, problems, close: () => context.close() };
}

test("the page verifies its log, and shows the thread at any event", { timeout: 120_000 }, async () => {
  assert.ok(html.length < 300 * 1_024, String(html.length));
  const { tab, problems, close } = await open(html);
  await tab.getByText("is intact").waitFor();
  assert.equal(await tab.locator("img").count(), 0);
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

test("a changed page says so", { timeout: 120_000 }, async () => {
  const changed = html.replace(/(\[1,\d+,\\?"turn_started\\?",[^\n]*?)echo one/, "$1echo 0ne");
  assert.notEqual(changed, html);
  const { tab, close } = await open(changed);
  await tab.getByText("is broken at event 1").waitFor();
  await close();
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
