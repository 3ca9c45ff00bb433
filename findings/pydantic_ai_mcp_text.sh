#!/bin/bash
# Pydantic AI drops the text of an MCP result that has structured content: the message of an error too.
#
# Seen with pydantic-ai-slim 2.68.0 and fastmcp-slim 4.2.3; on the left what the server answers, then what the model is shown:
#   result, text 'seven', structured {'n': 7}: {'n': 7}
#   result, text 'seven', structured {'result': 7}: 7
#   result, text 'seven', structured {'result': 7, 'unit': 'm'}: {'result': 7, 'unit': 'm'}
#   error, text 'no such row', structured {'row': 9}: '{"row":9}'
# MCP lets the two say different things, such as a sentence beside the data. An object whose only field is called `result` is taken for a
# wrapper and loses it, whatever the server's output schema says of it. {"row":9} alone does not say that the row is missing.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check "pydantic-ai-slim[mcp]==2.68.0" fastmcp-slim==4.2.3
cat > server.py <<'PY'
import json
import sys

for request in map(json.loads, sys.stdin):
    parameters = request.get("params", {})
    if request.get("method") == "initialize":
        result = {"protocolVersion": parameters["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif request.get("method") == "tools/list":
        result = {"tools": [{"name": "answer", "inputSchema": {"type": "object"}}]}
    else:
        result = parameters.get("arguments", {})
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
PY
cat > client.py <<'PY'
import asyncio
from fastmcp.client.transports import StdioTransport
from pydantic_ai import ModelRetry
from pydantic_ai.mcp import MCPToolset


async def main():
    async with MCPToolset(StdioTransport("python3", ["server.py"])) as server:
        results = [("seven", {"n": 7}), ("seven", {"result": 7}), ("seven", {"result": 7, "unit": "m"}), ("no such row", {"row": 9})]
        for text, structured in results:
            is_error = "row" in structured
            answer = {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": is_error}
            try:
                shown = await server.direct_call_tool("answer", answer)
            except ModelRetry as retry:
                shown = retry.message
            print(f"{'error' if is_error else 'result'}, text {text!r}, structured {structured}: {shown!r}")


asyncio.run(main())
PY
seen=$(venv/bin/python client.py)
echo "$seen"
expected="result, text 'seven', structured {'n': 7}: {'n': 7}
result, text 'seven', structured {'result': 7}: 7
result, text 'seven', structured {'result': 7, 'unit': 'm'}: {'result': 7, 'unit': 'm'}
error, text 'no such row', structured {'row': 9}: '{\"row\":9}'"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
