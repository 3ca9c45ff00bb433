#!/bin/bash
# LangChain JS repeats a request that was answered 422, and does not read `x-should-retry: false`.
#
# Seen with @langchain/openai 1.5.8 and @langchain/core 1.4.0, with maxRetries: 2:
#   400: 1 request
#   413: 1 request
#   422: 3 requests
#   424: 3 requests
# The `openai` package that it is built on sends each of these once: LangChain sets its retries to 0 and repeats by a list of its own, of
# ten statuses that end the call. Every other status is repeated, six times by default.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund @langchain/openai@1.5.8 @langchain/core@1.4.0 > /dev/null
cat > client.mjs <<'JS'
import { createServer } from "node:http";
import { ChatOpenAI } from "@langchain/openai";

let requests = 0;
let status = 0;
const server = createServer((request, response) => {
  requests += 1;
  request.resume();
  const error = { message: "the turn failed", type: "invalid_request_error", code: "turn_failed" };
  response.writeHead(status, { "content-type": "application/json", "x-should-retry": "false" });
  response.end(JSON.stringify({ error }));
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const baseURL = `http://127.0.0.1:${server.address().port}/v1`;
for (status of [400, 413, 422, 424]) {
  requests = 0;
  const model = new ChatOpenAI({ model: "m", apiKey: "k", maxRetries: 2, configuration: { baseURL } });
  await model.invoke("Hello").catch(() => {});
  console.log(`${status}: ${requests} ${requests === 1 ? "request" : "requests"}`);
}
server.close();
JS
seen=$(node client.mjs)
echo "$seen"
expected='400: 1 request
413: 1 request
422: 3 requests
424: 3 requests'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
