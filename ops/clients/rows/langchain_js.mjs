// packages: @langchain/openai@1.6.0 langchain@1.5.14 @langchain/core@1.4.0 @langchain/langgraph@1.7.3 zod@4.6.7
import { MemorySaver } from "@langchain/langgraph";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool } from "langchain";
import { z } from "zod";
import { ASK, BASE, BOOK, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather } from "../cells.mjs";

const chat = (model) => new ChatOpenAI({ model, apiKey: KEY, configuration: { baseURL: BASE }, maxRetries: 0 });
const Place = z.object({ city: z.string(), population: z.number().int() });
const offered = tool(weather, { name: "weather", description: "Rain that fell.", schema: z.object({ city: z.string() }) });
const user = (content) => ({ messages: [{ role: "user", content }] });

// The history is the framework's.
async function talk([model, first, answer]) {
  const agent = createAgent({ model: chat(model), tools: [], checkpointer: new MemorySaver() });
  const thread = { configurable: { thread_id: "js" } };
  await agent.invoke(user(first), thread);
  return (await agent.invoke(user(answer), thread)).messages.at(-1).text;
}

async function* texts(stream) {
  for await (const piece of stream) yield piece.text;
}

await row("@langchain/openai", {
  plain: async () => (await chat(MODEL).invoke(PLAIN)).text,
  stream: async () => joined(texts(await chat(MODEL).stream(PLAIN))),
  tools: async () => {
    const bound = chat(MODEL).bindTools([offered]);
    const first = await bound.invoke(RAIN);
    const result = await offered.invoke(first.tool_calls[0]);
    return (await bound.invoke([{ role: "user", content: RAIN }, first, result])).text;
  },
  typed: () => chat(MODEL).withStructuredOutput(Place).invoke(TYPED),
});
await row("langchain js createAgent", {
  plain: async () => (await createAgent({ model: chat(MODEL), tools: [offered] }).invoke(user(PLAIN))).messages.at(-1).text,
  stream: async () => {
    const stream = await createAgent({ model: chat(MODEL), tools: [offered] }).stream(user(PLAIN), { streamMode: "messages" });
    return joined((async function* () { for await (const [piece] of stream) yield piece.text; })());
  },
  tools: async () => (await createAgent({ model: chat(MODEL), tools: [offered] }).invoke(user(RAIN))).messages.at(-1).text,
  typed: async () => (await createAgent({ model: chat(MODEL), tools: [], responseFormat: Place }).invoke(user(TYPED))).structuredResponse,
  memory: () => talk(ASK),
  approval: () => talk(BOOK),
});
