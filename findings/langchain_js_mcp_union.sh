#!/bin/bash
# LangChain JS leaves one form of an MCP tool's parameter that may have several, and refuses the others.
#
# Seen with @langchain/mcp-adapters 1.1.4, @langchain/core 1.4.0 and @modelcontextprotocol/sdk 1.32.2; the options of an `anyOf`, then
# the values that reach the server and those that are refused before:
#   string, null: sends "hi", null; refuses nothing
#   string, number, object: sends {"id":1}; refuses "hi", 7
#   object with id, null: sends {"id":1}; refuses null
#   mail, call: sends {"kind":"call","no":"1"}; refuses {"kind":"mail","to":"ann"}
# and the model sees {"type":"object","properties":{"kind":{"const":"call"},"to":{"type":"string"},"no":{"type":"string"}}}
# for {"kind": "mail", "to": …} or {"kind": "call", "no": …}. `oneOf` is treated alike. If an option is an object, all become one object, and
# the last option decides on a property that several have. The error says that the input does not match the schema of the tool.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund @langchain/mcp-adapters@1.1.4 @langchain/core@1.4.0 @modelcontextprotocol/sdk@1.32.2 > /dev/null
cat > server.mjs <<'JS'
import { createInterface } from "node:readline";

const object = (properties) => ({ type: "object", properties });
const [string, number, none] = ["string", "number", "null"].map((type) => ({ type }));
const tools = Object.entries({
  text: [string, none],
  answer: [string, number, { type: "object" }],
  row: [{ ...object({ id: { type: "integer" } }), required: ["id"] }, none],
  way: [object({ kind: { const: "mail" }, to: string }), object({ kind: { const: "call" }, no: string })],
}).map(([name, anyOf]) => ({ name, inputSchema: { ...object({ value: { anyOf } }), required: ["value"] } }));
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  let result = { tools };
  if (method === "initialize") {
    const { protocolVersion } = params;
    result = { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } };
  } else if (method === "tools/call") {
    result = { content: [{ type: "text", text: JSON.stringify(params.arguments.value) }] };
  }
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
}
JS
cat > client.mjs <<'JS'
import { MultiServerMCPClient } from "@langchain/mcp-adapters";

const client = new MultiServerMCPClient({ mcpServers: { s: { command: "node", args: ["server.mjs"] } } });
const tools = Object.fromEntries((await client.getTools()).map((tool) => [tool.name, tool]));
for (const [name, options, values] of [
  ["text", "string, null", ["hi", null]],
  ["answer", "string, number, object", ["hi", 7, { id: 1 }]],
  ["row", "object with id, null", [{ id: 1 }, null]],
  ["way", "mail, call", [{ kind: "mail", to: "ann" }, { kind: "call", no: "1" }]],
]) {
  const [sent, refused] = [[], []];
  for (const value of values) {
    await tools[name].invoke({ value }).then((text) => sent.push(text), () => refused.push(JSON.stringify(value)));
  }
  console.log(`${options}: sends ${sent.join(", ")}; refuses ${refused.join(", ") || "nothing"}`);
}
console.log(`and the model sees ${JSON.stringify(tools.way.schema.properties.value)}`);
await client.close();
JS
seen=$(node client.mjs)
echo "$seen"
expected='string, null: sends "hi", null; refuses nothing
string, number, object: sends {"id":1}; refuses "hi", 7
object with id, null: sends {"id":1}; refuses null
mail, call: sends {"kind":"call","no":"1"}; refuses {"kind":"mail","to":"ann"}
and the model sees {"type":"object","properties":{"kind":{"const":"call"},"to":{"type":"string"},"no":{"type":"string"}}}'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
