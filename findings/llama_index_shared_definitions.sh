#!/bin/bash
# LlamaIndex describes an MCP tool with the definitions of another one, if both have the same name in `$defs`.
#
# Seen with llama-index-tools-mcp 0.4.8, llama-index-core 0.14.25 and mcp 1.30.0. On its first page a server lists three tools. `invite` and
# `pay` each take a `person`, by a definition `Person` of their own. On the left what the schema of the tool says, then what the model sees:
#   invite.person, object with email: object with email
#   pay.person, object with iban: object with email
#   wait.limit, integer or null: string or null
#   wait.until, any value: string or null
#   tools of the second page: none
# So the model gives `pay` an e-mail address and no account. Definitions are kept by name, for all tools of a server. Types given by
# `oneOf`, `allOf` or `const`, or not at all, become a string. Of a list in pages only the first one is read.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check llama-index-tools-mcp==0.4.8 llama-index-core==0.14.25 mcp==1.30.0
cat > server.py <<'PY'
import json
import sys


def tool(name, properties, **more):
    return {"name": name, "description": name, "inputSchema": {"type": "object", "properties": properties, **more}}


def takes_person(name, key):
    person = {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
    return tool(name, {"person": {"$ref": "#/$defs/Person"}}, required=["person"], **{"$defs": {"Person": person}})


limits = {"limit": {"oneOf": [{"type": "integer"}, {"type": "null"}]}, "until": {}}
FIRST = [takes_person("invite", "email"), takes_person("pay", "iban"), tool("wait", limits)]
for request in map(json.loads, sys.stdin):
    parameters = request.get("params") or {}
    if request["method"] == "initialize":
        version = parameters["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif parameters.get("cursor"):
        result = {"tools": [tool("last", {})]}
    else:
        result = {"tools": FIRST, "nextCursor": "2"}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
PY
cat > client.py <<'PY'
import asyncio
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


SAYS = {"invite.person": "object with email", "pay.person": "object with iban", "wait.limit": "integer or null", "wait.until": "any value"}


def words(schema, definitions):
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in schema:
        return " or ".join(words(option, definitions) for option in schema["anyOf"])
    return schema["type"] + "".join(f" with {name}" for name in schema.get("properties", {}))


async def main():
    tools = await McpToolSpec(client=BasicMCPClient("python3", args=["server.py"])).to_tool_list_async()
    for tool in tools:
        schema = tool.metadata.to_openai_tool()["function"]["parameters"]
        for name, value in schema["properties"].items():
            name = f"{tool.metadata.name}.{name}"
            print(f"{name}, {SAYS[name]}: {words(value, schema.get('$defs', {}))}")
    print(f"tools of the second page: {', '.join(tool.metadata.name for tool in tools[3:]) or 'none'}")


asyncio.run(main())
PY
seen=$(venv/bin/python client.py)
echo "$seen"
expected='invite.person, object with email: object with email
pay.person, object with iban: object with email
wait.limit, integer or null: string or null
wait.until, any value: string or null
tools of the second page: none'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
