#!/bin/bash
# The TypeScript MCP client checks results against the output schemas of the last page of tools that it read, and of no other.
#
# Seen with @modelcontextprotocol/sdk 1.32.2. A server lists two tools on two pages. Both promise {"n": integer} and answer {"n": "seven"}:
#   no list read: a accepted, b accepted
#   page 1 read: a refused, b accepted
#   page 2 read: a accepted, b refused
#   page 1 read again: a refused, b accepted
# Each page that is listed replaces what the client knows of all tools: the schemas, and which tools may or must run as tasks. A program
# that reads all pages ends with the checks of the last page alone. No message says that a result was not checked.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund @modelcontextprotocol/sdk@1.32.2 > /dev/null
cat > client.mjs <<'JS'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const outputSchema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
const tool = (name) => ({ name, inputSchema: { type: "object" }, outputSchema });
const server = new Server({ name: "s", version: "1" }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, ({ params }) =>
  params?.cursor ? { tools: [tool("b")] } : { tools: [tool("a")], nextCursor: "2" },
);
server.setRequestHandler(CallToolRequestSchema, () => ({
  content: [{ type: "text", text: "seven" }],
  structuredContent: { n: "seven" },
}));
const [near, far] = InMemoryTransport.createLinkedPair();
const client = new Client({ name: "c", version: "1" });
await Promise.all([server.connect(far), client.connect(near)]);

async function show(when) {
  const results = ["a", "b"].map((name) =>
    client.callTool({ name, arguments: {} }).then(() => `${name} accepted`, () => `${name} refused`),
  );
  console.log(`${when}: ${(await Promise.all(results)).join(", ")}`);
}
await show("no list read");
const { nextCursor } = await client.listTools();
await show("page 1 read");
await client.listTools({ cursor: nextCursor });
await show("page 2 read");
await client.listTools();
await show("page 1 read again");
await client.close();
JS
seen=$(node client.mjs)
echo "$seen"
expected='no list read: a accepted, b accepted
page 1 read: a refused, b accepted
page 2 read: a accepted, b refused
page 1 read again: a refused, b accepted'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
