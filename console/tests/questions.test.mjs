/** The ten questions of docs/questions.md: each is answered from a fresh page in at most three clicks or keys. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { indexed, Page, setUp, until } from "./harness.mjs";

let engine, browser, batch;
const times = [];

async function fill(it) {
  ({ engine, browser } = it);
  await engine.turn("probe", "fail printer 7 has no paper");
  await engine.turn("probe", "echo Where is order A-10/77?");
  await engine.turn("probe", "ask Which colour? | red | green");
  batch = await engine.batch([
    { strategy: "planner", input: "Book a walk on 2026-12-30 at 15" },
    { strategy: "probe", input: "echo hi" },
  ]);
  await until(async () => (await engine.api("GET", `/v1/batches/${batch}`)).request_counts.completed === 2);
  await indexed(engine);
}
setUp(fill, { demo: true });

after(() => {
  for (const { question, acts, ms } of times)
    console.log(`${String(ms).padStart(6)} ms, ${acts} ${acts === 1 ? "click or key" : "clicks or keys"}: ${question}`);
});

/** A newcomer at a page: counts what was clicked and pressed. A word that is typed is one key. */
class Newcomer {
  acts = 0;
  constructor(page) {
    this.tab = page.tab;
  }
  async click(locator) {
    this.acts += 1;
    await locator.first().click();
  }
  async press(key) {
    this.acts += 1;
    await this.tab.keyboard.press(key);
  }
  async type(text) {
    this.acts += 1;
    await this.tab.keyboard.type(text);
  }
  /** Opens a view. The rows of the view before it are gone when its heading is there. */
  async view(name) {
    await this.click(this.tab.getByRole("navigation").getByRole("link", { name }));
    await this.tab.getByRole("heading", { name, level: 1 }).waitFor();
  }
  rows() {
    return this.tab.locator("main a[data-row]");
  }
  region(name) {
    return this.tab.getByRole("region", { name });
  }
  sees(text) {
    return this.tab.getByText(text).filter({ visible: true }).first().waitFor();
  }
}

/** Each question, and the way to its answer, which ends when the answer is seen. */
const questions = {
  "What failed last night, and why?": async (it) => {
    await it.click(it.region("Failures").getByRole("link", { name: /printer/ }));
    await it.tab.waitForURL(/cause/);
    await it.rows().filter({ hasText: "printer 7 has no paper" }).first().waitFor();
  },
  "Which turns of this batch cost most?": async (it) => {
    await it.view("Batches");
    await it.click(it.rows());
    await it.click(it.tab.getByRole("link", { name: "Turns by cost" }));
    await it.sees("Ordered are the newest");
    const [dearest] = (await engine.api("GET", `/v1/turns?order=usd&where=${encodeURIComponent(`batch = ${batch}`)}`))
      .data;
    await until(async () => (await it.rows().first().getAttribute("title")) === `Turn ${dearest.id}`);
  },
  "Where did this order number appear?": async (it) => {
    await it.press("/");
    await until(() => it.tab.evaluate(() => document.activeElement?.id === "where"));
    await it.type("A-10/77");
    await it.press("Enter");
    await it.tab
      .getByRole("link", { name: /A-10\/77/ })
      .first()
      .waitFor();
  },
  "Which version of the prompt made this answer?": async (it) => {
    await it.view("Turns");
    await it.click(it.rows().filter({ hasText: "planner" }).filter({ hasText: "answered" }));
    await it.click(it.tab.getByRole("tab", { name: "Prompt" }));
    const hash = it.region("Prompt").getByRole("link").first();
    assert.match(await hash.getAttribute("href"), /prompts\/[0-9a-f]+/);
  },
  "How does yesterday's run differ from today's?": async (it) => {
    await it.view("Threads");
    await it.click(it.tab.getByLabel(/^Choose thread/).nth(1));
    await it.click(it.tab.getByLabel(/^Choose thread/).nth(2));
    await it.sees("Clocks and ids do not count.");
  },
  "Why did this turn take 40 seconds?": async (it) => {
    await it.view("Turns");
    const ordered = it.tab.waitForResponse(/order=took/);
    await it.click(it.tab.locator(".names").getByRole("button", { name: "Time" }));
    const [slowest] = (await (await ordered).json()).data;
    await until(async () => (await it.rows().first().getAttribute("title")) === `Turn ${slowest.id}`);
    await it.click(it.rows());
    await it.tab.getByRole("list", { name: "Uses of the time" }).first().waitFor();
  },
  "What did the death of a worker cost?": async (it) => {
    await it.view("Costs");
    await it.sees(/threads read\./);
    const row = it.region("Overhead").getByRole("row", { name: /^No worker alive/ });
    assert.match(await row.innerText(), /\b[1-9][\d,]* takeovers?\b/);
  },
  "Which questions wait for me?": async (it) => {
    await it.view("Inbox");
    await it.region("Questions").getByRole("listitem").first().waitFor();
  },
  "Which tools changed?": async (it) => {
    await it.tab.route(/\/v1\/mcp\/servers$/, async (route) => {
      const body = await (await route.fetch()).json();
      body.data[0].pin_state = "changed";
      await route.fulfill({ json: body });
    });
    await it.view("MCP servers");
    const { data } = await engine.api("GET", "/v1/mcp/servers");
    for (const [nth, { name, pin_state }] of data.entries()) {
      const row = it.rows().filter({ has: it.tab.locator("strong", { hasText: new RegExp(`^${name}$`) }) });
      const text = nth === 0 ? "tools changed" : { approved: "tools approved", unpinned: "not pinned" }[pin_state];
      await row.getByText(text, { exact: true }).waitFor();
    }
  },
  "What would these runs do with today's code, or with another prompt?": async (it) => {
    await it.view("Turns");
    await it.click(it.rows());
    await it.click(it.tab.getByRole("button", { name: "Replay" }));
    await it.sees("Today's code makes the same decisions");
  },
};

test("the questions are those of the book", () => {
  const book = readFileSync("../docs/questions.md", "utf8").match(/^## .*/gm);
  assert.deepEqual(
    book.map((it) => it.slice(3)),
    Object.keys(questions),
  );
});

for (const [question, answer] of Object.entries(questions))
  test(`${question} At most three clicks or keys`, { timeout: 120_000 }, async () => {
    const page = await Page.open(browser, engine);
    await page.view("", "Is it flowing?");
    await page.tab.getByRole("region", { name: "Failures" }).getByRole("link").first().waitFor();
    const newcomer = new Newcomer(page);
    const began = Date.now();
    await answer(newcomer);
    times.push({ question, acts: newcomer.acts, ms: Date.now() - began });
    assert.ok(newcomer.acts <= 3, `${newcomer.acts} clicks or keys`);
    assert.deepEqual(page.problems, []);
    await page.close();
  });
