"""A model that answers each request in the one way that fits it, and a command that books a table: `model.py PORT`.

A plan: one step, which books a table. Tools and a question about rain: it calls the first tool once, and then repeats the result. A demanded function or a schema: an
object that fits. Anything else: a greeting.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GREETING = "Ahoy from the model."


def fitting(schema, root=None, name=""):
    """Returns a value that fits a schema."""
    root = root or schema
    if "$ref" in schema:
        found = root
        for part in schema["$ref"].lstrip("#/").split("/"):
            found = found[part]
        return fitting(found, root, name)
    if "const" in schema or "enum" in schema:
        return schema.get("const") or schema["enum"][0]
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return fitting(next(one for one in schema[choice] if one.get("type") != "null"), root, name)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = next(one for one in kind if one != "null") if isinstance(kind, list) else kind
    match kind:
        case "object":
            return {key: fitting(value, root, key) for key, value in schema.get("properties", {}).items()}
        case "array":
            return [fitting(schema.get("items", {}), root, name)]
        case "integer":
            return 700_000
        case "number":
            return 0.5
        case "boolean":
            return True
    return "Oslo"


def planned(schema):
    """Returns a plan of one step that fits the schema of a plan."""
    step = {"step": None, "command": "commands.book", "description": "Book a table in Oslo", "payload": {"city": "Oslo"}, "only_if": None}
    item = schema["properties"]["action_plan"]["items"]
    item = schema["$defs"][item["$ref"].rpartition("/")[2]] if "$ref" in item else item
    whole = {"action_plan": [{key: step[key] for key in item["properties"]}], "missing_information": [], "response_text": ""}
    return {key: whole[key] for key in schema["properties"]}


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def result_of(messages):
    """Returns the result of a tool; some clients send it as text."""
    for message in reversed(messages):
        if message["role"] == "tool" or (message["role"] != "system" and "4711" in text_of(message)):
            return text_of(message)
    return None


def call(tool, values):
    function = tool["function"]
    arguments = fitting(function.get("parameters") or {"type": "object"})
    if values is not None and "city" not in arguments:
        arguments = {key: values if isinstance(value, str) else value for key, value in arguments.items()}
    return {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": function["name"], "arguments": json.dumps(arguments)}}]}


def sections(text):
    """Fields that are asked for in the form `[[ ## name ## ]]`, in their order."""
    names = [part.split(" ## ]]")[0] for part in text.split("[[ ## ")[1:]]
    values = {"population": "700000", "next_tool_name": "finish" if "4711" in text else "weather", "next_tool_args": '{"city": "Oslo"}', "city": "Oslo"}
    if values["next_tool_name"] == "finish":
        values["next_tool_args"] = "{}"
    given = "It says 4711 mm of rain." if "4711" in text else GREETING
    return "\n\n".join(f"[[ ## {name} ## ]]\n{'' if name == 'completed' else values.get(name, given)}" for name in dict.fromkeys(names))


def answer(body):
    """Returns the message of the model."""
    messages, tools, choice = body["messages"], body.get("tools") or [], body.get("tool_choice", "auto")
    form, result = body.get("response_format") or {}, result_of(body["messages"])
    asks_for_rain = any("rain" in text_of(message) for message in messages if message["role"] == "user")
    if isinstance(choice, dict) and "function" in choice:
        return call(next(tool for tool in tools if tool["function"]["name"] == choice["function"]["name"]), result)
    if tools and choice == "required" and (result or not asks_for_rain):
        return call(tools[-1], result)
    if tools and choice != "none" and asks_for_rain and not result:
        return call(tools[0], None)
    if "action_plan" in form.get("json_schema", {}).get("schema", {}).get("properties", {}):
        return {"content": json.dumps(planned(form["json_schema"]["schema"]))}
    if form.get("type") == "json_schema":
        return {"content": json.dumps(fitting(form["json_schema"]["schema"]))}
    if form.get("type") == "json_object":
        return {"content": json.dumps({"city": "Oslo", "population": 700_000})}
    last = text_of(messages[-1])
    if "Respond with the corresponding output fields" in last:
        asked = last.split("Respond with the corresponding output fields")[1]
        return {"content": sections(asked + ("4711" if result else ""))}
    if result:
        return {"content": f"The tool says: {result}"}
    return {"content": GREETING}


def chunks(message):
    """Splits a message as endpoints stream it."""
    yield {"role": "assistant", "content": ""}
    for nth, one in enumerate(message.get("tool_calls", [])):
        yield {"tool_calls": [{"index": nth, **one}]}
    for piece in message.get("content", "").split(" "):
        yield {"content": piece if message.get("content", "").startswith(piece) else " " + piece}


class Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/book":
            return self.reply("application/json", [json.dumps({"booked": "table 4711"})])
        message = answer(body)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        base = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
        if body.get("stream"):
            parts = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in chunks(message)]
            parts += [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}, {"choices": [], "usage": usage}]
            events = [json.dumps({**base, "object": "chat.completion.chunk", **part}) for part in parts] + ["[DONE]"]
            self.reply("text/event-stream", [f"data: {event}\n\n" for event in events])
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": reason}
            self.reply("application/json", [json.dumps({**base, "object": "chat.completion", "choices": [choice], "usage": usage})])

    def reply(self, kind, pieces):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len("".join(pieces).encode())))
        self.end_headers()
        # A reader that comes a little later still sees the answer grow.
        for piece in pieces:
            self.wfile.write(piece.encode())
            time.sleep(0.02)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Endpoint).serve_forever()
