/** Questions to people: each kind of form, and exactly what is approved. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Page, setUp, until } from "./harness.mjs";

let engine, browser;
setUp((it) => ({ engine, browser } = it), { demo: true });

const options = { timeout: 180_000 };

test("an approval shows exactly what is sent, and its answer reaches the agent", options, async () => {
  const { thread_id: thread } = await engine.turn(
    "action_plan",
    "Welcome Ben Dale (ben.dale@example.org) on 2026-12-24 at 16",
  );
  const item = await engine.api("GET", `/v1/inbox/${thread}`);
  const page = await Page.open(browser, engine);
  await page.view("inbox?kind=approval", "The plan");
  const checkbox = page.tab.getByRole("checkbox").first();
  assert.ok(await checkbox.isDisabled(), "a question that nobody looked at cannot be selected");
  await page.tab.locator("main [data-row]").first().click();
  for (const call of item.calls) {
    await page.sees(`${call.server}.${call.tool}`);
    const shown = await page.tab.locator("pre").allTextContents();
    assert.ok(
      shown.some((it) => JSON.stringify(JSON.parse(it)) === JSON.stringify(call.arguments)),
      shown.join(),
    );
  }
  assert.ok(await checkbox.isEnabled());
  await page.button("Approve").click();
  await page.sees("Approved");
  await until(async () => (await engine.api("GET", `/v1/threads/${thread}`)).log_status === "idle");
  const { messages } = await engine.api("GET", `/v1/threads/${thread}`);
  assert.match(messages.at(-1).content, /^Done/);
  await page.sees("No question of this kind");
  assert.deepEqual(await page.faults("approval"), []);
  await page.close();
});

test("several questions of one kind are approved at once, after each was opened", options, async () => {
  const asked = await Promise.all(
    [15, 17].map((hour) =>
      engine.turn("action_plan", `Welcome Ben Dale (ben.dale@example.org) on 2026-12-24 at ${hour}`),
    ),
  );
  const page = await Page.open(browser, engine);
  await page.view("inbox?kind=approval", "2 open");
  for (const nth of [0, 1]) {
    await page.tab.locator("main [data-row]").nth(nth).click();
    await page.tab.getByRole("checkbox").nth(nth).check();
  }
  await page.button("Approve 2").click();
  await page.sees("2 questions approved");
  for (const { id, thread_id: thread } of asked) {
    await until(async () => (await engine.api("GET", `/v1/threads/${thread}`)).turn_id !== id);
    const { data } = await engine.api("GET", `/v1/turns?thread_id=${thread}&order=oldest`);
    assert.equal(data[1].input[0].content, "yes");
  }
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("the questions of a batch are approved at once, after one of their kind was opened", options, async () => {
  const hours = [9, 10, 11];
  const batch = await engine.batch(
    hours.map((hour) => ({
      strategy: "action_plan",
      input: `Welcome Ben Dale (ben.dale@example.org) on 2026-12-24 at ${hour}`,
    })),
  );
  const inbox = () => engine.api("GET", `/v1/inbox?batch_id=${batch}`);
  await until(async () => (await inbox()).data.length === hours.length);
  const { data: asked } = await inbox();
  const page = await Page.open(browser, engine);
  await page.view(`inbox?batch=${batch}`, "3 open");
  assert.ok(await page.tab.getByRole("checkbox").last().isDisabled(), "nobody looked at this kind of question");
  await page.tab.locator("main [data-row]").first().click();
  await page.button("Select all 3 of this kind in the batch").click();
  assert.deepEqual(await page.faults("inbox-batch"), []);
  await page.button("Approve 3").click();
  await page.sees("3 questions approved");
  for (const { thread_id: thread, turn_id: id } of asked) {
    await until(async () => (await engine.api("GET", `/v1/threads/${thread}`)).turn_id !== id);
    const { data } = await engine.api("GET", `/v1/turns?thread_id=${thread}&order=oldest`);
    assert.equal(data[1].input[0].content, "yes");
  }
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("each kind of question has a form", options, async () => {
  const page = await Page.open(browser, engine);
  const choice = await engine.turn("probe", "ask Which colour? | red | green");
  await page.view(`threads/${choice.thread_id}`, "Which colour?");
  await page.tab.getByRole("button", { name: "2 green" }).click();
  await page.sees('answered "green"');
  const number = await engine.turn("probe", "ask How many guests? | 3 | 2 | 4");
  await page.view(`threads/${number.thread_id}`, "How many guests?");
  await page.tab.getByRole("button", { name: "1 3" }).click();
  await page.sees('answered "3"');
  const text = await engine.turn("probe", "ask What is your name?");
  await page.view(`threads/${text.thread_id}`, "Your answer");
  await page.tab.getByLabel("Your answer").fill("Ada");
  await page.button("Send answer").click();
  await page.sees('answered "Ada"');
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("forms of tools and calls in doubt send what the API expects", options, async () => {
  const base = {
    thread_id: "01a21ba7-6fc7-77b2-8520-ad9024206195",
    turn_id: null,
    seq: 7,
    strategy: "planner",
    asked_at: new Date().toISOString(),
    options: [],
    question: "Which table?",
  };
  const config = { allow_accept: true, allow_edit: true, allow_respond: true, allow_ignore: true };
  const properties = {
    guests: { type: "integer", title: "Guests" },
    name: { type: "string", default: "Ada" },
    window: { type: "boolean" },
    room: { type: "string", enum: ["blue", "red"] },
    table: {
      type: "string",
      oneOf: [
        { const: "2", title: "Terrace" },
        { const: "1", title: "Door" },
      ],
    },
    extras: { type: "array", items: { enum: ["3", "2", "1"] } },
  };
  const items = [
    {
      ...base,
      kind: "input",
      schema: { type: "object", properties, required: ["guests"] },
      interrupt: { action_request: { action: "input", args: {} }, config, description: "" },
    },
    {
      ...base,
      seq: 8,
      kind: "in_doubt",
      slot: 2,
      options: ["happened", "did not", "skip"],
      interrupt: { action_request: { action: "calendar.book", args: { day: "2026-12-24" } }, config, description: "" },
    },
  ];
  const page = await Page.open(browser, engine);
  const sent = [];
  await page.tab.route(/\/v1\/inbox(\?|$)/, (route) => route.fulfill({ json: { data: items, has_more: false } }));
  await page.tab.route(
    /\/v1\/inbox\/.+/,
    (route) => (sent.push(route.request().postDataJSON()), route.fulfill({ json: {} })),
  );
  await page.view("inbox", "Which table?");
  await page.tab.locator("main [data-row]").nth(0).click();
  await page.tab.getByLabel("Guests").fill("4");
  await page.tab.getByLabel("window").check();
  await page.tab.getByLabel("room").selectOption("red");
  await page.tab.getByLabel("table").selectOption("Door");
  await page.tab.getByLabel("2", { exact: true }).check();
  assert.deepEqual(await page.faults("form"), []);
  await page.button("Send").click();
  await page.sees("Answered");
  await page.tab.locator("main [data-row]").nth(1).click();
  await page.sees("2026-12-24");
  await page.button("It did not happen").click();
  await page.sees("Recorded: it did not happen");
  assert.deepEqual(sent, [
    {
      type: "edit",
      args: { name: "Ada", guests: 4, window: true, room: "red", table: "1", extras: ["2"] },
      turn_id: null,
      seq: 7,
    },
    { type: "respond", args: { slot: 2, verdict: "did_not_happen" }, turn_id: null, seq: 8 },
  ]);
  await page.close();
});

test("doubts about one tool are settled together, after one of them was opened", options, async () => {
  const doubt = (nth, tool) => ({
    thread_id: `01a21ba7-6fc7-77b2-8520-ad902420619${nth}`,
    turn_id: null,
    seq: 10 + nth,
    slot: nth,
    server: "helpdesk",
    tool,
    strategy: "planner",
    kind: "in_doubt",
    asked_at: new Date().toISOString(),
    question: `Did call ${nth} of ${tool} happen?`,
    options: ["happened", "did not", "skip"],
    interrupt: {
      action_request: { action: `helpdesk.${tool}`, args: { nth } },
      config: { allow_accept: true, allow_edit: false, allow_respond: true, allow_ignore: true },
      description: "",
    },
  });
  const items = [doubt(1, "create_ticket"), doubt(2, "close_ticket"), doubt(3, "create_ticket")];
  const page = await Page.open(browser, engine);
  const sent = [];
  await page.tab.route(/\/v1\/inbox(\?|$)/, (route) => route.fulfill({ json: { data: items, has_more: false } }));
  await page.tab.route(/\/v1\/inbox\/settle/, (route) => {
    sent.push(route.request().postDataJSON());
    const refused = sent.length > 1 ? [{ ...named(3), type: "stale", detail: "another question is open" }] : [];
    return route.fulfill({ json: { settled: 2 - refused.length, refused } });
  });
  const named = (nth) => ({ thread_id: items[nth - 1].thread_id, slot: nth });
  const refs = [1, 3].map((nth) => ({ ...named(nth), seq: 10 + nth }));
  await page.view("inbox", "Did call 1 of create_ticket happen?");
  const boxes = page.tab.getByRole("checkbox");
  assert.ok(await boxes.first().isDisabled(), "nobody looked at a call of this tool");
  await page.tab.locator("main [data-row]").first().click();
  assert.ok(await boxes.nth(2).isEnabled());
  assert.ok(await boxes.nth(1).isDisabled(), "a call of another tool");
  await page.button("Select all 2 doubts about helpdesk.create_ticket").click();
  await page.sees("2 questions selected");
  assert.deepEqual(await page.faults("inbox-doubts"), []);
  await page.button("None of 2 happened").click();
  await page.sees("2 calls settled");
  await page.button("Select all 2 doubts about helpdesk.create_ticket").click();
  await page.tab.getByLabel("Result of the calls, if you know it").fill("ticket 7");
  await page.button("All 2 happened").click();
  await page.sees("1 settled, 1 refused: another question is open");
  await page.tab.locator("main [data-row]").nth(1).click();
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  assert.ok(await page.button("None of 2 happened").isDisabled(), "calls of two tools have two outcomes");
  const request = { server: "helpdesk", tool: "create_ticket", doubts: refs };
  assert.deepEqual(sent, [
    { ...request, verdict: "did_not_happen" },
    { ...request, verdict: { happened: { result: "ticket 7" } } },
  ]);
  await page.close();
});
