#!/bin/bash
# LangChain makes a whole tool call of one that was cut off at the token limit, but only if the answer is streamed.
#
# Seen with langchain-openai 1.7.4 and langchain-core 1.8.3. The model's arguments stop at `{"to": "ann", "amount": 12`, perhaps of 1200,
# and the finish reason is `length`:
#   invoke: length, calls [], invalid calls 1
#   stream: length, calls [{'to': 'ann', 'amount': 12}], invalid calls 0
# Chunks that are added up close the open brackets and strings of the arguments, so that they can be shown while they arrive. The last chunk
# does not undo it: an agent that streams gets a valid call with the amount that happened to be there.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check langchain-openai==1.7.4 langchain-core==1.8.3
cat > client.py <<'PY'
import json
from functools import reduce
from http.server import BaseHTTPRequestHandler, HTTPServer
from operator import add
from threading import Thread
from langchain_openai import ChatOpenAI

CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add_money", "arguments": '{"to": "ann", "amount": 12'}}
MESSAGE = {"role": "assistant", "content": None, "tool_calls": [CALL]}


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        choices = [{"index": 0, "delta": MESSAGE}, {"index": 0, "delta": {}, "finish_reason": "length"}]
        body = "".join(f"data: {json.dumps({'id': 'a', 'choices': [choice]})}\n\n" for choice in choices) + "data: [DONE]\n\n"
        if not request.get("stream"):
            body = json.dumps({"id": "a", "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "length"}]})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if request.get("stream") else "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Model)
Thread(target=server.serve_forever, daemon=True).start()
model = ChatOpenAI(model="m", api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1")
for way, answer in [("invoke", model.invoke("Pay Ann")), ("stream", reduce(add, model.stream("Pay Ann")))]:
    calls = [call["args"] for call in answer.tool_calls]
    print(f"{way}: {answer.response_metadata['finish_reason']}, calls {calls}, invalid calls {len(answer.invalid_tool_calls)}")
PY
seen=$(venv/bin/python client.py)
echo "$seen"
expected="invoke: length, calls [], invalid calls 1
stream: length, calls [{'to': 'ann', 'amount': 12}], invalid calls 0"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
