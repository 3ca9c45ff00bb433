#!/bin/bash
# AutoGen gets none of an MCP server's tools if one property of one tool has a list as its `type`.
#
# Seen with autogen-ext 0.7.5 and mcp 1.30.0; a server lists the tools `time`, without parameters, and `answer`, whose `text` may be a text
# or a number; on the left the schema of `text`, then what `mcp_server_tools` returns:
#   {"anyOf": [{"type": "string"}, {"type": "number"}]}: answer, time
#   {"type": "string"}: answer, time
#   {"type": ["string", "number"]}: TypeError: unhashable type: 'list'
# The first and the last schema mean the same. `McpWorkbench` of the same package takes all three: it hands schemas on and makes no
# types of them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check "autogen-ext[mcp]==0.7.5" mcp==1.30.0
cat > server.py <<'PY'
import json
import sys

answer = {"type": "object", "properties": {"text": json.loads(sys.argv[1])}}
tools = [{"name": "answer", "inputSchema": answer}, {"name": "time", "inputSchema": {"type": "object", "properties": {}}}]
for request in map(json.loads, sys.stdin):
    result = {"tools": tools}
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
PY
cat > client.py <<'PY'
import asyncio
import json
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams, mcp_server_tools


async def main():
    for schema in [{"anyOf": [{"type": "string"}, {"type": "number"}]}, {"type": "string"}, {"type": ["string", "number"]}]:
        server = StdioServerParams(command="python3", args=["server.py", json.dumps(schema)])
        async with McpWorkbench(server) as workbench:
            assert len(await workbench.list_tools()) == 2
        try:
            names = ", ".join(tool.name for tool in await mcp_server_tools(server))
        except TypeError as error:
            names = f"TypeError: {error}"
        print(f"{json.dumps(schema)}: {names}")


asyncio.run(main())
PY
seen=$(venv/bin/python client.py)
echo "$seen"
expected='{"anyOf": [{"type": "string"}, {"type": "number"}]}: answer, time
{"type": "string"}: answer, time
{"type": ["string", "number"]}: TypeError: unhashable type: '"'list'"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
