#!/bin/bash
# smolagents shows the model a stricter schema than an MCP tool has, up to one that no value fits, and only the first text of a result.
#
# Seen with smolagents 1.26.0, mcpadapt 0.1.19 and mcp 1.30.0. A tool requires `text` only; `version` is {"const": 5} and `level` is
# {"enum": [1, 2]}, without a type. This is what the model is shown of the properties, and of a result with the texts 'page 1' and 'page 2':
#   text: {"type": "string"}, required
#   limit: {"type": "integer"}, required
#   order: {"type": "string", "default": "new"}, required
#   version: {"const": 5, "type": "string"}, required
#   level: {"enum": [1, 2], "type": "string"}, required
#   result: 'page 1'
# A model that sticks to its schema makes up a limit, and has no way to give a version or a level. Of the second text only a warning in the
# log remains. The list that says what is required is not read.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check smolagents==1.26.0 mcpadapt==0.1.19 mcp==1.30.0
cat > server.py <<'PY'
import json
import sys

properties = {
    "text": {"type": "string"},
    "limit": {"type": "integer"},
    "order": {"type": "string", "default": "new"},
    "version": {"const": 5},
    "level": {"enum": [1, 2]},
}
schema = {"type": "object", "properties": properties, "required": ["text"]}
for request in map(json.loads, sys.stdin):
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif request["method"] == "tools/list":
        result = {"tools": [{"name": "find", "inputSchema": schema}]}
    else:
        result = {"content": [{"type": "text", "text": text} for text in ["page 1", "page 2"]]}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
PY
cat > client.py <<'PY'
import json
import logging
from mcp import StdioServerParameters
from smolagents import ToolCollection
from smolagents.models import get_tool_json_schema

logging.disable()
SERVER = StdioServerParameters(command="python3", args=["server.py"])
with ToolCollection.from_mcp(SERVER, trust_remote_code=True, structured_output=False) as tools:
    [find] = tools.tools
    schema = get_tool_json_schema(find)["function"]["parameters"]
    for name, value in schema["properties"].items():
        value = {key: value[key] for key in value if key != "description"}
        print(f"{name}: {json.dumps(value)}, {'required' if name in schema['required'] else 'optional'}")
    print(f"result: {find(text='a')!r}")
PY
seen=$(venv/bin/python client.py)
echo "$seen"
expected="text: {\"type\": \"string\"}, required
limit: {\"type\": \"integer\"}, required
order: {\"type\": \"string\", \"default\": \"new\"}, required
version: {\"const\": 5, \"type\": \"string\"}, required
level: {\"enum\": [1, 2], \"type\": \"string\"}, required
result: 'page 1'"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
