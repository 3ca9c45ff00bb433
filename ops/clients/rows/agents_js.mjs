// packages: @openai/agents@0.20.0 zod@4.6.7
import { Agent, run, setOpenAIAPI, setTracingDisabled, tool } from "@openai/agents";
import { z } from "zod";
import { MODEL, PLAIN, RAIN, TYPED, joined, row, weather } from "../cells.mjs";

setTracingDisabled(true);
const offered = tool({ name: "weather", description: "Rain that fell.", parameters: z.object({ city: z.string() }), execute: weather });
const agent = (more) => new Agent({ name: "helper", instructions: "Be brief.", model: MODEL, ...more });

for (const [name, api] of [["@openai/agents", "responses"], ["@openai/agents, chat_completions", "chat_completions"]]) {
  setOpenAIAPI(api);
  await row(name, {
    plain: async () => (await run(agent({}), PLAIN)).finalOutput,
    stream: async () => joined((await run(agent({}), PLAIN, { stream: true })).toTextStream()),
    tools: async () => {
      const expert = agent({ name: "expert", tools: [offered] });
      const done = await run(agent({ handoffs: [expert] }), RAIN);
      if (done.lastAgent.name !== "expert") throw new Error(`${done.lastAgent.name} answers`);
      return (await run(agent({ tools: [offered] }), RAIN)).finalOutput;
    },
    typed: async () => (await run(agent({ outputType: z.object({ city: z.string(), population: z.number().int() }) }), TYPED)).finalOutput,
  });
}
