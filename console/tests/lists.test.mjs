/** Lists: what they say about a run, periods in the address, commands of empty views, and where the focus stays. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { becomes, Engine, Page, setUp, TURNFOLD, until, WIDTHS } from "./harness.mjs";

const run = promisify(execFile);
let engine, empty, browser;
setUp(
  async (it) => {
    ({ engine, browser } = it);
    empty = await Engine.start();
  },
  { demo: true },
);
after(() => empty?.stop());

const options = { timeout: 180_000 };
const focused = (page) => page.tab.evaluate(() => document.activeElement?.textContent?.trim() ?? "");

test("a list of threads says what each is about, what it cost and how it ended", options, async () => {
  const { thread_id: thread } = await engine.turn("planner", "Book a walk on 2026-12-30 at 15");
  await engine.turn("probe", "echo first; ask Which colour? | red | green");
  const page = await Page.open(browser, engine);
  await page.view("threads", "First input");
  const row = page.tab.locator(`a[title="Thread ${thread}"]`);
  const text = await row.innerText();
  assert.match(text, /Book a walk/);
  assert.match(text, /booked 2026-12-30/);
  assert.match(text, /(ms|s)\b/);
  await page.sees("Which colour?");
  await page.close();
});

test("a number is searched for, and an id opens its thread", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("threads", "shown");
  for (const [typed, where] of [
    ["20261130", 'text = "20261130"'],
    ["1a2b4c5d", "thread = 1a2b4c5d"],
    ["01a21ba7-6fc7-77b2-8520-ad9024206195", "thread = 01a21ba7-6fc7-77b2-8520-ad9024206195"],
    ["order A-10/77", 'text = "order A-10/77"'],
  ]) {
    await page.tab.locator("#where").fill(typed);
    await page.button("Filter").click();
    const address = async () => new URLSearchParams((await page.tab.evaluate(() => location.hash)).split("?")[1]);
    await becomes(async () => (await address()).get("where"), where);
  }
  // A thread without a turn is in no filtered list, and is still opened by its id.
  const id = "01a21ba7-6fc7-77b2-8520-ad9024206195";
  await page.view(`threads?where=thread+%3D+${id}`, "No thread matches");
  assert.equal(await page.tab.getByRole("link", { name: "open the thread" }).getAttribute("href"), `#/threads/${id}`);
  await page.close();
});

test("the period of a list is in the address and in the command", options, async () => {
  const page = await Page.open(browser, engine);
  for (const path of ["turns", "threads", "batches", "inbox"]) {
    await page.view(path, "Period");
    await page.tab.getByLabel("Period").selectOption("last hour");
    await page.tab.waitForURL(/range=hour/);
    await page.tab.reload();
    await until(async () => (await page.tab.getByLabel("Period").inputValue()) === "hour");
  }
  const asked = page.tab.waitForRequest((it) => /\/v1\/turns\?.*where=.*age/.test(it.url()));
  await page.view("turns?range=hour&where=strategy+%3D+probe", "shown");
  assert.equal(new URL((await asked).url()).searchParams.get("where"), "strategy = probe and age < 1h");
  assert.match(await page.button("Copy command").getAttribute("title"), /--where 'strategy = probe and age < 1h'$/);
  const batch = await engine.batch([{ strategy: "probe", input: "echo hi" }]);
  const old = { ...(await engine.api("GET", `/v1/batches/${batch}`)), created_at: Date.now() / 1_000 - 7_200 };
  await page.tab.route(/\/v1\/batches/, (route) =>
    route.fulfill({ json: { data: [old], has_more: false, object: "list", first_id: null, last_id: null } }),
  );
  await page.view("batches?range=hour", "No batch matches");
  await page.view("batches?range=day", "1 shown");
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("empty views give commands that work", options, async () => {
  writeFileSync(
    join(empty.folder, "lines.jsonl"),
    JSON.stringify({ custom_id: "a", method: "POST", url: "/v1/turns", body: { strategy: "probe", input: "echo a" } }),
  );
  mkdirSync(join(empty.folder, "checkpoints"), { recursive: true });
  const page = await Page.open(browser, empty);
  const commands = new Set();
  for (const [path, text] of [
    ["turns", "No turns yet"],
    ["threads", "No threads yet"],
    ["batches", "No batches yet"],
    ["audit", "No checkpoint yet"],
  ]) {
    await page.view(path, text);
    for (const it of await page.tab.locator(".empty code").allInnerTexts()) commands.add(it);
  }
  assert.equal(commands.size, 4, [...commands].join("\n"));
  for (const command of commands) {
    assert.match(command, /^turnfold /);
    const shell = ["-c", command.replace(/^turnfold/, '"$TURNFOLD"')];
    await run("sh", shell, { cwd: empty.folder, env: { ...process.env, TURNFOLD } });
  }
  await page.close();
});

test("the focus stays where it was after Enter", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("turns", "shown");
  await page.tab.keyboard.press("/");
  await page.tab.keyboard.type("strategy = probe");
  await page.tab.keyboard.press("Enter");
  await page.tab.waitForURL(/where=/);
  await becomes(() => page.tab.evaluate(() => document.activeElement?.id), "where");

  // A row that was opened has the focus again when its list is returned to.
  await page.tab.keyboard.press("Escape");
  await page.view("turns", "shown");
  await page.tab.locator("main a[data-row]").first().waitFor();
  for (let nth = 0; nth < 30; nth += 1) await page.tab.keyboard.press("j");
  const row = await page.tab.evaluate(() => document.activeElement.getAttribute("href"));
  const scroll = await page.tab.evaluate(() => scrollY);
  assert.ok(0 < scroll && row, `${row} at ${scroll}`);
  await page.tab.keyboard.press("Enter");
  await page.sees("Conversation");
  await becomes(() => page.tab.evaluate(() => document.activeElement.tagName), "MAIN");
  await page.tab.goBack();
  await until(() => page.tab.evaluate((href) => document.activeElement.getAttribute("href") === href, row));
  await until(async () => Math.abs((await page.tab.evaluate(() => scrollY)) - scroll) < 50);

  // A button keeps it while it works.
  const { thread_id: thread } = await engine.turn("probe", "echo hello");
  await page.view(`threads/${thread}`, "Conversation");
  await page.button("Verify").focus();
  await page.tab.keyboard.press("Enter");
  await page.sees("is intact");
  await page.tab.keyboard.press("Escape");
  await page.tab.getByRole("dialog").waitFor({ state: "detached" });
  await becomes(() => focused(page), "Verify");
  await page.tab.getByRole("button", { name: "Previous event" }).focus();
  await page.tab.keyboard.press("Enter");
  await page.button("Newest").focus();
  await page.tab.keyboard.press("Enter");
  await becomes(() => focused(page), "Newest");
  await page.tab.getByLabel("Next message").fill("echo again");
  await page.button("Send").focus();
  await page.tab.keyboard.press("Enter");
  await page.sees("again");
  await becomes(() => focused(page), "Send");

  // After an answer, the next question takes its place.
  for (const name of ["first", "second", "third"]) await engine.turn("probe", `ask ${name}? | yes | no`);
  await page.view("inbox?kind=choice", "third?");
  await page.tab.locator("main [data-row]").first().focus();
  await page.tab.keyboard.press("Enter");
  await page.tab.getByRole("button", { name: "1 yes" }).focus();
  await page.tab.keyboard.press("Enter");
  await until(async () => /second\?/.test(await focused(page)));
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("an approval begins with what is approved", options, async () => {
  const { thread_id: thread } = await engine.turn(
    "action_plan",
    "Welcome Ben Dale (ben.dale@example.org) on 2026-12-24 at 16",
  );
  const [call] = (await engine.api("GET", `/v1/inbox/${thread}`)).calls;
  const page = await Page.open(browser, engine, { width: 390 });
  await page.view("inbox?kind=approval", call.tool);
  const row = page.tab.locator("main [data-row]").first();
  assert.match(await row.locator(".grow").innerText(), new RegExp(`^${call.server}\\.${call.tool}`));
  await page.view(`threads/${thread}`, `Approve ${call.server}.${call.tool}`);
  await page.close();
});

test("right-to-left text stays beside its label", options, async () => {
  const words = "مرحبا بالعالم";
  const { thread_id: thread } = await engine.turn("probe", `stream ${words}`);
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}`, words);
  const message = page.tab.locator(".message .text").filter({ hasText: words }).first();
  const label = await page.tab.locator(".message strong").first().boundingBox();
  const box = await message.boundingBox();
  assert.ok(Math.abs(box.x - label.x) < 2 && box.width < 400, JSON.stringify([box, label]));
  await page.view("turns", words);
  const row = page.tab.locator("main a[data-row]").filter({ hasText: words }).first();
  const sides = await row
    .locator("span[dir=auto]")
    .evaluateAll((all) => all.map((it) => getComputedStyle(it).textAlign));
  assert.deepEqual([...new Set(sides)], ["left"]);
  await page.close();
});

for (const width of WIDTHS)
  test(`lists are sound at ${width} px`, options, async () => {
    const faults = [];
    for (const theme of ["light", "dark"])
      for (const [name, path, text] of [
        ["list-turns", "turns", "shown"],
        ["list-threads", "threads", "shown"],
        ["list-batches", "batches", "shown"],
        ["list-inbox", "inbox", "open"],
      ]) {
        const page = await Page.open(browser, engine, { width, theme });
        await page.view(path, text);
        await page.tab.locator("main [data-row], main .empty").first().waitFor();
        faults.push(...(await page.faults(name)));
        await page.close();
      }
    assert.deepEqual(faults, []);
  });
