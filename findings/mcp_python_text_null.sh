#!/bin/bash
# A tool of the Python MCP SDK gets None where the caller sent the text "null", and refuses a value that its own schema lists.
#
# Seen with mcp 2.3.0; on the left the type of the tool's parameter and the text that was sent, then what the function gets:
#   str, 'null': 'null'
#   str | None, 'null': None
#   str | None, '[1]': refused
#   str | None, '12': '12'
#   str | list[str], '["a"]': ['a']
#   Literal['null', 'zero'], 'null': refused
# The schema that the server lists for the last one is {"enum": ["null", "zero"]}. A text is first read as JSON unless the type is exactly
# `str`; if that gives a list, an object or null, it takes the text's place before the types are checked. A note such as "[1]" or a file's
# text that happens to be JSON cannot be passed to an optional parameter. FastMCP 4.2.3 passes all six texts on as they are.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mcp==2.3.0
cat > tools.py <<'PY'
import asyncio
from typing import Literal
from mcp import Client
from mcp.server.mcpserver import MCPServer

CALLS = {
    "str": (str, ["null"]),
    "str | None": (str | None, ["null", "[1]", "12"]),
    "str | list[str]": (str | list[str], ['["a"]']),
    "Literal['null', 'zero']": (Literal["null", "zero"], ["null"]),
}


async def main():
    for name, (kind, texts) in CALLS.items():
        def tool(text: kind) -> str:
            return repr(text)

        server = MCPServer("notes")
        server.add_tool(tool)
        async with Client(server) as client:
            for text in texts:
                result = await client.call_tool("tool", {"text": text})
                print(f"{name}, {text!r}: {'refused' if result.is_error else result.content[0].text}")


asyncio.run(main())
PY
seen=$(venv/bin/python tools.py 2> errors || cat errors >&2)
echo "$seen"
expected="str, 'null': 'null'
str | None, 'null': None
str | None, '[1]': refused
str | None, '12': '12'
str | list[str], '[\"a\"]': ['a']
Literal['null', 'zero'], 'null': refused"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
