// turnfold through OpenAI's own client for JavaScript: `client.cjs BASE_URL chat|again|batches|bulk KIND COUNT`.

const assert = require("node:assert/strict");
const OpenAI = require("openai");

const [base, what, ...rest] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base + "/v1", apiKey: "any", maxRetries: 2 });
const user = (content) => ({ role: "user", content });
const say = (words, more = {}, options = {}) =>
  client.chat.completions.create({ model: "turnfold/probe", messages: [user(words)], ...more }, options);

async function models() {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert(ids.includes("turnfold/probe") && ids.includes("turnfold/planner"), ids.join());
  assert.equal((await client.models.retrieve("turnfold/planner")).owned_by, "turnfold");
  await assert.rejects(client.models.retrieve("turnfold/nobody"), (error) => {
    assert(error instanceof OpenAI.NotFoundError);
    return error.code === "model_not_found" && error.param === "model";
  });
}

async function wholeAndStreamed() {
  const answer = await say("echo hello there", { temperature: 0.1, metadata: { order: "17" }, user: "ada" });
  assert.equal(answer.choices[0].message.content, "Done: hello there.");
  assert.equal(answer.turnfold.status, "completed");
  let words = "";
  let usage;
  const streamed = { stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await say("echo one two three four five six seven eight", streamed)) {
    usage = chunk.usage ?? usage;
    for (const choice of chunk.choices) words += choice.delta.content ?? "";
  }
  assert.equal(words, "Done: one two three four five six seven eight.");
  assert.equal(usage.total_tokens, 0);
  const { data, response } = await say("echo hi", { turnfold: { priority: "high" } }).withResponse();
  assert.equal(data.turnfold.thread_id, response.headers.get("x-turnfold-thread"));
}

async function aQuestionIsAnswered() {
  const asked = await say("ask Which colour? | red | green");
  assert.equal(asked.choices[0].message.content, "Which colour?\n1. red\n2. green");
  const headers = { "x-turnfold-thread": asked.turnfold.thread_id };
  const answered = await say("green", {}, { headers });
  assert.equal(answered.choices[0].message.content, 'Done: answered "green".');
  assert.equal(answered.turnfold.thread_id, asked.turnfold.thread_id);
}

async function responses() {
  const create = (input, more = {}) => client.responses.create({ model: "turnfold/probe", input, ...more });
  const asked = await create("ask Which colour? | red | green");
  assert.deepEqual(asked.output[0].turnfold.interrupt.options, ["red", "green"]);
  const answered = await create("green", { previous_response_id: asked.id });
  assert.equal(answered.output_text, 'Done: answered "green".');
  let text = "";
  const stream = client.responses.stream({ model: "turnfold/probe", input: "echo one two three four five six seven eight" });
  stream.on("response.output_text.delta", (event) => (text += event.delta));
  const whole = await stream.finalResponse();
  assert.equal(text, "Done: one two three four five six seven eight.");
  assert.equal(whole.output_text, text);
  await assert.rejects(async () => {
    for await (const _ of await create("fail no paper", { stream: true }));
  }, /no paper/);
  let later = await create("echo later", { background: true });
  const until = Date.now() + 60_000;
  while (["queued", "in_progress"].includes(later.status)) {
    assert(Date.now() < until, JSON.stringify(later));
    await new Promise((done) => setTimeout(done, 100));
    later = await client.responses.retrieve(later.id);
  }
  assert.equal(later.output_text, "Done: later.");
  const talk = await client.conversations.create({ metadata: { topic: "demo" } });
  const first = await create("echo hello", { conversation: talk.id });
  assert.equal(first.conversation.id, talk.id);
  const items = (await client.conversations.items.list(talk.id)).data;
  assert.equal(items[0].content[0].text, "Done: hello.");
  await client.conversations.delete(talk.id);
}

async function errors() {
  await assert.rejects(say("echo hi", { n: 2 }), (error) => {
    assert(error instanceof OpenAI.BadRequestError);
    return error.code === "unsupported_parameter" && error.param === "n";
  });
  await assert.rejects(say("fail no toner"), (error) => {
    assert(error instanceof OpenAI.UnprocessableEntityError);
    return error.code === "turn_failed" && error.message.includes("no toner");
  });
  // Not tried again by the client itself, which would be another turn each time.
  const failed = (await client.get("/turns?status=failed")).data;
  assert.equal(failed.filter((it) => it.input[0].content.includes("no toner")).length, 1);
  await assert.rejects(async () => {
    for await (const _ of await say("fail no string", { stream: true }));
  }, OpenAI.APIError);
}

async function planner() {
  const words = "Add Olaf Quist with the address olaf.quist@example.org to my contacts";
  const answer = await client.chat.completions.create({ model: "turnfold/planner", messages: [user(words)] });
  assert(answer.choices[0].message.content.includes("Olaf Quist"), JSON.stringify(answer));
}

async function batches() {
  const line = (n) => ({
    custom_id: `line-${n}`,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: "turnfold/probe", messages: [user(n === 7 ? "fail on purpose" : `echo ${n}`)] },
  });
  const lines = Array.from({ length: 20 }, (_, n) => JSON.stringify(line(n))).join("\n");
  const file = await client.files.create({ file: await OpenAI.toFile(Buffer.from(lines), "lines.jsonl"), purpose: "batch" });
  let batch = await client.batches.create({
    input_file_id: file.id,
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
  });
  const until = Date.now() + 120_000;
  while (!["completed", "failed", "expired", "cancelled"].includes(batch.status)) {
    assert(Date.now() < until, JSON.stringify(batch));
    await new Promise((done) => setTimeout(done, 100));
    batch = await client.batches.retrieve(batch.id);
  }
  const { total, completed, failed } = batch.request_counts;
  assert.deepEqual([batch.status, total, completed, failed], ["completed", 20, 19, 1]);
  const text = await (await client.files.content(batch.output_file_id)).text();
  const results = text.trim().split("\n").map((it) => JSON.parse(it));
  assert.equal(results.length, 19);
  const third = results.find((it) => it.custom_id === "line-3");
  assert.equal(third.response.body.choices[0].message.content, "Done: 3.");
}

// Asks for what takes a while of a server that is killed meanwhile, and comes back.
async function again() {
  const answer = await say("wait 3; echo javascript", {}, { maxRetries: 50 });
  assert(answer.choices[0].message.content.endsWith("javascript."), JSON.stringify(answer));
}

async function chat() {
  for (const part of [models, wholeAndStreamed, aQuestionIsAnswered, responses, errors, planner]) await part();
}

// A batch of so many lines of a kind: uploaded, made, watched, downloaded; every line once, and well.
async function bulk() {
  const [kind, count] = [rest[0], Number(rest[1])];
  const words = (n) =>
    kind === "planner" ? `Add Nora Quist${n} with the address nora${n}@example.org to my contacts` : `echo ${n}`;
  const line = (n) => ({
    custom_id: `${kind}-${n}`,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: `turnfold/${kind}`, messages: [user(words(n))] },
  });
  const lines = Array.from({ length: count }, (_, n) => JSON.stringify(line(n))).join("\n");
  const file = await client.files.create({ file: await OpenAI.toFile(Buffer.from(lines), "lines.jsonl"), purpose: "batch" });
  let batch = await client.batches.create({
    input_file_id: file.id,
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
  });
  const until = Date.now() + 280_000;
  while (!["completed", "failed", "expired", "cancelled"].includes(batch.status)) {
    assert(Date.now() < until, JSON.stringify(batch));
    await new Promise((done) => setTimeout(done, 500));
    batch = await client.batches.retrieve(batch.id);
  }
  const { total, completed, failed } = batch.request_counts;
  assert.deepEqual([batch.status, total, completed, failed], ["completed", count, count, 0], JSON.stringify(batch));
  const text = await (await client.files.content(batch.output_file_id)).text();
  const names = new Set(text.trim().split("\n").map((it) => JSON.parse(it).custom_id));
  assert.equal(names.size, count);
  assert.equal(text.trim().split("\n").length, count);
  console.log("reused", batch.turnfold.reused);
}

({ chat, again, batches, bulk })[what]().then(
  () => console.log("as expected"),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
