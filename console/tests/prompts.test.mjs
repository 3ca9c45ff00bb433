/** What models were sent, versions of prompts, ratings of answers, and where words were said. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { becomes, indexed, Page, setUp, until, WIDTHS } from "./harness.mjs";

let engine, browser;
setUp(
  (it) => {
    ({ engine, browser } = it);
    return indexed(engine);
  },
  { demo: true },
);

const options = { timeout: 180_000 };
const plan = () => engine.turn("planner", "Book a walk on 2026-12-30 at 15");

test("a request shows what the model was sent, and leads to its prompt", options, async () => {
  const { thread_id: thread } = await plan();
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}`, "Conversation");
  await page.tab.locator(".visit .line").first().click();
  await page.button("Prompt").click();
  const tab = page.tab.getByRole("region", { name: "Prompt" });
  await tab.getByText("System prompt").first().click();
  await tab.locator("pre").first().waitFor();
  await tab.getByText("Book a walk").first().waitFor();
  assert.match(await page.tab.evaluate(() => location.hash), /tab=prompt/);
  assert.deepEqual(await page.faults("prompt-of-thread"), []);
  await tab.getByRole("link").first().click();
  await page.tab.waitForURL(/prompts\/[0-9a-f]+$/);
  await page.tab.getByRole("region", { name: "Uses" }).getByText("planner").first().waitFor();
  await page.tab.getByRole("region", { name: "Text" }).locator("pre").waitFor();
  await page.close();
});

test("a thread that asked no model says so", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "echo hi");
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}?tab=prompt`, "No model was asked");
  await page.close();
});

test("an answer is rated with a note, and counts for its strategy", options, async () => {
  const { thread_id: thread, id } = await plan();
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread}`, "Conversation");
  const took = page.tab.locator(".turn-head .when");
  const measured = (await page.tab.getByText(/^= [\d.]+ m?s$/).innerText()).slice(2);
  await until(async () => (await took.innerText()).endsWith(measured));
  await page.button("Rate the answer").click();
  await page.tab.getByLabel("Note").fill("It ignored the date.");
  await page.button("Bad").click();
  const rated = page.tab.locator(".event", { hasText: "rated" });
  await rated.getByText("It ignored the date.").waitFor();
  await rated.getByText("bad").first().waitFor();
  await page.button("Rate the answer again").click();
  await page.button("Good").click();
  await becomes(() => rated.count(), 2);
  await page.settled();
  assert.ok((await took.innerText()).endsWith(measured), "a rating takes no time of the turn");
  const { data } = await engine.api("GET", `/v1/threads/${thread}/events?limit=500`);
  const events = data.filter((it) => it.kind === "rated");
  assert.deepEqual(
    events.map((it) => [it.event.turn, it.event.rating, it.event.note ?? ""]),
    [
      [id, "bad", "It ignored the date."],
      [id, "good", ""],
    ],
  );
  assert.deepEqual(await page.faults("rated"), []);
  await page.view("prompts", "Ratings by strategy");
  await page.close();
});

test("words are found where they were said", options, async () => {
  const { thread_id: thread } = await engine.turn("probe", "echo where is order QX-77/1234 now");
  await until(async () => (await engine.api("GET", "/v1/search?q=QX-77%2F1234")).data.length);
  const page = await Page.open(browser, engine);
  for (const view of ["turns", "threads"]) {
    await page.view(view, "shown");
    await page.tab.locator("#where").fill("order QX-77/1234");
    await page.button("Filter").click();
    const hits = page.tab.getByRole("region", { name: "Hits" });
    await hits.locator("mark", { hasText: "QX-77/1234" }).waitFor();
    assert.deepEqual(await page.faults(`hits-${view}`), []);
    await hits.getByRole("link").first().click();
    await page.tab.waitForURL(new RegExp(`threads/${thread}\\?at=\\d+`));
  }
  await page.view("turns?where=status%20%3D%20failed", "shown");
  assert.equal(await page.tab.getByRole("region", { name: "Hits" }).count(), 0);
  await page.close();
});

for (const width of WIDTHS)
  test(`prompts are sound at ${width} px`, options, async () => {
    await plan();
    const { prompts } = await engine.api("GET", "/v1/prompts");
    const [one, other] = prompts;
    const faults = [];
    for (const theme of ["light", "dark"]) {
      const page = await Page.open(browser, engine, { width, theme });
      await page.view("prompts", one.hash.slice(0, 8));
      faults.push(...(await page.faults("prompts")));
      await page.view(`prompts/${one.hash}?with=${other.hash}`, "Used by");
      await page.tab.locator("del, ins").first().waitFor();
      faults.push(...(await page.faults("prompt-compared")));
      await page.view("threads?where=text%20%3D%20%22walk%22", "Where it was said");
      await page.tab.locator("mark").first().waitFor();
      faults.push(...(await page.faults("hits")));
      await page.close();
    }
    assert.deepEqual(faults, []);
  });
