#!/usr/bin/env python3
"""Serves a script, such as fixtures/demo/model.jsonl, as an OpenAI-compatible model, so that its requests are counted by the endpoint.

Usage: ops/scripted_model.py SCRIPT LOG

Prints its port, then answers until it is killed. LOG gets one line for each request that was answered: the SHA-256 of its body.
"""

import hashlib, http.server, json, re, sys


class Rule:
    def __init__(self, line):
        self.line = line
        self.patterns = {key: re.compile(line[key].replace("(?<", "(?P<")) for key in ("system", "hears", "last") if key in line}

    def captures(self, said):
        if self.line.get("shape", said["shape"]) != said["shape"] or self.line.get("last_role", said["role"]) != said["role"]:
            return None
        found = {key: pattern.search(said[key]) for key, pattern in self.patterns.items()}
        if not all(found.values()):
            return None
        return {name: text for match in found.values() for name, text in match.groupdict().items() if text is not None}


def fill(value, captures):
    if isinstance(value, list):
        return [fill(item, captures) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, captures) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    number = re.fullmatch(r"\{(\w+):number\}", value)
    if number and number[1] in captures:
        return json.loads(captures[number[1]])
    return re.sub(r"\{(\w+)\}", lambda match: captures.get(match[1], match[0]), value)


def words(message):
    content = (message or {}).get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def reply(rules, body):
    messages = [message for message in body["messages"] if message["role"] not in ("system", "developer")]
    person = next((message for message in reversed(messages) if message["role"] == "user"), None)
    last = messages[-1] if messages else None
    said = {
        "shape": body.get("response_format", {}).get("json_schema", {}).get("name"),
        "system": "".join(words(message) for message in body["messages"] if message["role"] in ("system", "developer")),
        "hears": words(person),
        "last": words(last),
        "role": (last or {}).get("role"),
    }
    for rule in rules:
        captures = rule.captures(said)
        if captures is not None:
            says = fill(rule.line.get("says"), captures)
            calls = [
                {
                    "id": f"call-{len(messages)}-{nth}",
                    "type": "function",
                    "function": {"name": call["name"], "arguments": json.dumps(fill(call.get("arguments", {}), captures))},
                }
                for nth, call in enumerate(rule.line.get("calls", []))
            ]
            content = says if isinstance(says, str) else "" if says is None else json.dumps(says)
            return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"]))
        message = reply(self.server.rules, json.loads(text))
        if message is None:
            return self.answer(400, {"error": {"message": "no rule matches"}})
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        self.answer(
            200,
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "demo",
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
            },
        )
        self.server.log.write(hashlib.sha256(text).hexdigest() + "\n")
        self.server.log.flush()

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    server.rules = [Rule(json.loads(line)) for line in open(sys.argv[1]) if line.strip()]
    server.log = open(sys.argv[2], "a")
    print(server.server_port, flush=True)
    server.serve_forever()
