"""An MCP server that does what servers should not. Its arguments: its name, and a folder for what it leaves behind."""

import json
import os
import sys
import time

name, home = sys.argv[1:]


def tool(title, properties=None, read_only=True):
    schema = {"type": "object", "properties": properties or {}, "required": list(properties or {})}
    return {"name": title, "description": title, "inputSchema": schema, "annotations": {"readOnlyHint": read_only}}


TOOLS = {
    # Each page names the one after it.
    "many": [tool("tool_%03d" % nth) for nth in range(300)],
    "big": [tool("pour")],
    "left": [tool("who", {"asks": {"type": "string"}})],
    "right": [tool("who", {"asks": {"type": "string"}})],
    "frail": [tool("look"), tool("send", read_only=False), tool("rest")],
    "strict": [tool("book", {"hour": {"type": "integer"}}, read_only=False)],
}[name]
PAGE = 100


def leave(what, text):
    """Appends to a file that the test reads, all at once."""
    with open(os.path.join(home, what), "a") as file:
        file.write(text + "\n")


def hang_once(what):
    """The first time it tells who it is and never answers; whoever is there then, ends it."""
    if not os.path.exists(os.path.join(home, what)):
        leave(what, str(os.getpid()))
        time.sleep(3600)


def call(what, arguments):
    if what == "pour":
        return "drop " * (1 << 20), False
    if what == "who":
        return "%s here, dear %s" % (name, arguments["asks"]), False
    if what in ("look", "send"):
        hang_once(what)
        return "%s again" % what, False
    if what == "book":
        leave("booked", json.dumps(arguments))
        good = isinstance(arguments.get("hour"), int)
        return ("booked" if good else "the hour must be a number"), not good
    return "%s of %s" % (what, name), False


def answer(method, params):
    if method == "initialize":
        version = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        return {**version, "serverInfo": {"name": name, "version": "1"}}
    if method == "tools/list":
        start = int(params.get("cursor") or 0)
        more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(TOOLS) else {}
        return {"tools": TOOLS[start : start + PAGE], **more}
    if method == "tools/call":
        text, is_error = call(params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": text}], "isError": is_error}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = answer(request["method"], request.get("params") or {})
    outcome = {"result": result} if result else {"error": {"code": -32601, "message": "Method not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)
