#!/bin/bash
# LangChain calls an MCP tool without the argument, if the argument is named `config`, `runtime` or `run_manager`.
#
# Seen with langchain-mcp-adapters 0.3.2, langchain-core 1.8.3 and mcp 1.30.0. A tool takes one text, and the name of the property is on the
# left; then what the model is told is required, and the arguments that arrive at the server for {NAME: "node"}:
#   version: tells ["version"], sends {"version": "node"}
#   callbacks: tells ["callbacks"], sends {"callbacks": "node"}
#   config: tells ["config"], sends {}
#   run_manager: tells ["run_manager"], sends {}
#   runtime: tells ["runtime"], sends {}
# These are parameters of LangChain's own functions, which take the model's arguments as keyword arguments. There is no error: the model
# sees the whole schema and fills it in, and the server runs the tool with a default, or refuses a call that the model made correctly.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check langchain-mcp-adapters==0.3.2 langchain-core==1.8.3 mcp==1.30.0
cat > server.py <<'PY'
import json
import sys

NAMES = ["version", "callbacks", "config", "run_manager", "runtime"]


def schema(name):
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


for request in map(json.loads, sys.stdin):
    parameters = request.get("params", {})
    if request["method"] == "initialize":
        version = parameters["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif request["method"] == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": schema(name)} for name in NAMES]}
    else:
        result = {"content": [{"type": "text", "text": json.dumps(parameters.get("arguments"))}]}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
PY
cat > client.py <<'PY'
import asyncio
import json
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    async with stdio_client(StdioServerParameters(command="python3", args=["server.py"])) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            await session.initialize()
            for tool in await load_mcp_tools(session):
                required = convert_to_openai_tool(tool)["function"]["parameters"]["required"]
                [block] = await tool.ainvoke({tool.name: "node"})
                print(f"{tool.name}: tells {json.dumps(required)}, sends {block['text']}")


asyncio.run(main())
PY
seen=$(venv/bin/python client.py)
echo "$seen"
expected='version: tells ["version"], sends {"version": "node"}
callbacks: tells ["callbacks"], sends {"callbacks": "node"}
config: tells ["config"], sends {}
run_manager: tells ["run_manager"], sends {}
runtime: tells ["runtime"], sends {}'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
