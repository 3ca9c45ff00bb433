// packages: ai@7.0.173 @ai-sdk/openai@4.0.118 @ai-sdk/openai-compatible@3.0.92 zod@4.6.7
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { DirectChatTransport, Output, ToolLoopAgent, convertToModelMessages, generateText, isStepCount, readUIMessageStream, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { ASK, BASE, BOOK, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather } from "../cells.mjs";

const openai = createOpenAI({ baseURL: BASE, apiKey: KEY });
const compatible = createOpenAICompatible({ name: "turnfold", baseURL: BASE, apiKey: KEY });
const structured = createOpenAICompatible({ name: "turnfold", baseURL: BASE, apiKey: KEY, supportsStructuredOutputs: true });
const offered = { weather: tool({ description: "Rain that fell.", inputSchema: z.object({ city: z.string() }), execute: async (input) => weather(input) }) };
const Place = z.object({ city: z.string(), population: z.number().int() });

// The transport of `useChat`, without a page: it sends the whole conversation of the page.
async function memory(model, [first, answer]) {
  const transport = new DirectChatTransport({ agent: new ToolLoopAgent({ model }) });
  const messages = [];
  for (const text of [first, answer]) {
    messages.push({ id: `m${messages.length}`, role: "user", parts: [{ type: "text", text }] });
    let answer;
    const stream = await transport.sendMessages({ chatId: "1", messages, trigger: "submit-message", abortSignal: undefined });
    for await (const message of readUIMessageStream({ stream })) answer = message;
    messages.push(answer);
  }
  return messages.at(-1).parts.map((part) => part.text ?? "").join("");
}

// The messages of a page, sent by `generateText`.
async function generated(model, [first, answer]) {
  const messages = [];
  for (const text of [first, answer]) {
    messages.push({ id: `m${messages.length}`, role: "user", parts: [{ type: "text", text }] });
    const { text: reply } = await generateText({ model, messages: await convertToModelMessages(messages) });
    messages.push({ id: `m${messages.length}`, role: "assistant", parts: [{ type: "text", text: reply }] });
  }
  return messages.at(-1).parts[0].text;
}

for (const [name, model, typed] of [
  ["@ai-sdk/openai", openai],
  ["@ai-sdk/openai .chat()", openai.chat],
  ["@ai-sdk/openai-compatible", compatible, structured],
]) {
  await row(name, {
    plain: async () => (await generateText({ model: model(MODEL), prompt: PLAIN })).text,
    stream: () => joined(streamText({ model: model(MODEL), prompt: PLAIN }).textStream),
    tools: async () => (await generateText({ model: model(MODEL), prompt: RAIN, tools: offered, stopWhen: (isStepCount ?? stepCountIs)(4) })).text,
    typed: async () => (await generateText({ model: (typed ?? model)(MODEL), prompt: TYPED, output: Output.object({ schema: Place }) })).output,
    memory: () => memory(model(ASK[0]), ASK.slice(1)),
    approval: async () => {
      const streamed = await memory(model(BOOK[0]), BOOK.slice(1));
      if (!streamed.includes("4711")) throw new Error(`useChat: ${streamed}`);
      return generated(model(BOOK[0]), ["Book another table in Oslo.", "yes"]);
    },
  });
}
