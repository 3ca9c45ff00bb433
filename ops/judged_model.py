#!/usr/bin/env python3
"""Serves a model whose answers a prompt makes worse, and a judge of them that errs, for ops/judge.sh.

Usage: ops/judged_model.py ERRORS

Prints its port, then answers until it is killed. A prompt `Variant 3, 40 percent.` makes 40 % of the answers worse; all others say the
same in other words. The judge counts the facts of both answers; ERRORS percent of its verdicts are drawn by lot. The same request has
always the same answer.
"""

import hashlib, http.server, json, re, sys

FACTS = ("lunch", "friday", "12", "ann")
GOOD = ("On Friday at 12 you have lunch with Ann.", "I booked lunch with Ann: Friday, 12 o'clock.", "Booked: lunch, Friday 12, Ann.")
WORSE = ("All is done.", "Lunch is booked.", "It is booked for Friday.")


def drawn(text, of):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) % of


def words(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def verdict(body):
    text = words(body["messages"][-1])
    pair = json.loads(text)
    if drawn("errs" + text, 100) < int(sys.argv[1]):
        return ("first", "second", "tie")[drawn("lot" + text, 3)]
    first, second = (sum(fact in pair[side].lower() for fact in FACTS) for side in ("first", "second"))
    return "tie" if first == second else "first" if second < first else "second"


def answer(body):
    text = json.dumps(body["messages"])
    if "verdict" in json.dumps(body.get("response_format", {})):
        return json.dumps({"verdict": verdict(body), "reason": "It names more of the facts."})
    variant = re.search(r"Variant \d+, (\d+) percent", text)
    choices = WORSE if variant and drawn(text, 100) < int(variant[1]) else GOOD
    return choices[drawn("choice" + text, len(choices))]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        choice = {"index": 0, "message": {"role": "assistant", "content": answer(body)}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        reply = {"id": "1", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
