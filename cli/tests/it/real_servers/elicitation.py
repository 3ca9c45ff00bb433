"""An MCP server of protocol 2026-07-28 that asks before it books. Its argument: a folder for what it leaves behind.

It remembers nothing between two calls: all it knows it is told again.
"""

import json
import os
import sys
import time

home = sys.argv[1]
VERSION = "2026-07-28"
GUESTS = {"type": "object", "properties": {"guests": {"type": "integer", "minimum": 1, "maximum": 8}}, "required": ["guests"]}
SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}


def wants(name, message, schema, state):
    asks = {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}
    return {"resultType": "input_required", "inputRequests": {name: asks}, "requestState": json.dumps(state)}


def book(params):
    with open(os.path.join(home, "called"), "a") as file:
        file.write(json.dumps(params) + "\n")
    state = json.loads(params.get("requestState") or "{}")
    answers = params.get("inputResponses") or {}
    if "guests" in answers:
        state["guests"] = answers["guests"]["content"]["guests"]
    if "guests" not in state:
        return wants("guests", "For how many?", GUESTS, state)
    if "sure" not in answers:
        return wants("sure", "%d cost a deposit. Sure?" % state["guests"], SURE, state)
    booked = answers["sure"]["action"] == "accept" and answers["sure"]["content"]["sure"]
    text = "booked for %d" % state["guests"] if booked else "not booked"
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


def answer(method, params):
    cache = {"ttlMs": 0, "cacheScope": "private"}
    if method == "server/discover":
        return {"resultType": "complete", "supportedVersions": [VERSION], "capabilities": {"tools": {}}, **cache}
    if method == "tools/list":
        tool = {"name": "book", "description": "Books a table", "inputSchema": {"type": "object"}}
        roast = {**tool, "name": "roast", "description": "Takes its time"}
        return {"resultType": "complete", "tools": [tool, roast], **cache}
    if method == "tools/call" and params["name"] == "roast":
        with open(os.path.join(home, "roasted"), "a") as file:
            file.write("once\n")
        time.sleep(7)
        return {"resultType": "complete", "content": [{"type": "text", "text": "roasted well"}]}
    if method == "tools/call":
        return book(params)
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = answer(request["method"], request.get("params") or {})
    outcome = {"result": result} if result else {"error": {"code": -32601, "message": "Method not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)
