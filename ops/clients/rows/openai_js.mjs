// packages: openai@7.59.0 zod@4.6.7
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather } from "../cells.mjs";

const client = new OpenAI({ baseURL: BASE, apiKey: KEY });
const Place = z.object({ city: z.string(), population: z.number().int() });
const user = (content) => [{ role: "user", content }];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };

async function* texts(stream) {
  for await (const chunk of stream) yield chunk.choices[0]?.delta.content;
}

async function* deltas(stream) {
  for await (const event of stream) if (event.type === "response.output_text.delta") yield event.delta;
}

await row("openai js, chat", {
  plain: async () => (await client.chat.completions.create({ model: MODEL, messages: user(PLAIN) })).choices[0].message.content,
  stream: () => joined(texts(client.chat.completions.stream({ model: MODEL, messages: user(PLAIN) }))),
  tools: () =>
    client.chat.completions
      .runTools({
        model: MODEL,
        messages: user(RAIN),
        tools: [{ type: "function", function: { name: "weather", parameters, parse: JSON.parse, function: weather } }],
      })
      .finalContent(),
  typed: async () =>
    (await client.chat.completions.parse({ model: MODEL, messages: user(TYPED), response_format: zodResponseFormat(Place, "place") })).choices[0].message.parsed,
});
await row("openai js, responses", {
  plain: async () => (await client.responses.create({ model: MODEL, input: PLAIN })).output_text,
  stream: async () => joined(deltas(await client.responses.create({ model: MODEL, input: PLAIN, stream: true }))),
  tools: async () => {
    const tools = [{ type: "function", name: "weather", parameters, strict: true }];
    const first = await client.responses.create({ model: MODEL, input: RAIN, tools });
    const call = first.output.find((item) => item.type === "function_call");
    const result = { type: "function_call_output", call_id: call.call_id, output: weather(JSON.parse(call.arguments)) };
    return (await client.responses.create({ model: MODEL, input: [...user(RAIN), ...first.output, result], tools })).output_text;
  },
  typed: async () => (await client.responses.parse({ model: MODEL, input: TYPED, text: { format: zodTextFormat(Place, "place") } })).output_parsed,
});
