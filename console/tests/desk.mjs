/** An MCP server over stdio for the tests. Its tools are in the file that its argument names. */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const replies = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {}, prompts: {}, resources: {} },
    serverInfo: { name: "desk", version: "1.0" },
    instructions: "Book by day.",
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: JSON.parse(readFileSync(process.argv[2], "utf8")) }),
  "prompts/list": () => ({
    prompts: [{ name: "plan_day", description: "Plans a day.", arguments: [{ name: "day" }] }],
  }),
  "resources/list": () => ({
    resources: [{ name: "today", uri: "desk://today", description: "Appointments of today." }],
  }),
  "resources/templates/list": () => ({ resourceTemplates: [] }),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const reply = replies[method];
  const outcome = reply ? { result: reply(params) } : { error: { code: -32601, message: `unknown method ${method}` } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...outcome })}\n`);
});
