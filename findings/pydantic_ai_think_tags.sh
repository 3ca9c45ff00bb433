#!/bin/bash
# Pydantic AI takes words out of an answer that mentions <think>, unless the answer is streamed.
#
# Seen with pydantic-ai-slim 2.68.0, a model of no known family, and the answer "Write <think> and </think> around it.":
#   one answer: 'Write  around it.'
#   streamed: 'Write <think> and </think> around it.'
# Everything between the tags goes to a thinking part, wherever in the text it stands. If the closing tag is missing, only the opening tag
# is lost. While streaming, tags count only if they are a chunk of their own, so that the same text gives two different outputs. Without
# streaming, a text about reasoning models, or XML with this element, does not come back whole.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check "pydantic-ai-slim[openai]==2.68.0"
cat > client.py <<'PY'
import asyncio
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

MESSAGE = {"role": "assistant", "content": "Write <think> and </think> around it."}
COMMON = {"id": "a", "created": 1, "model": "m"}


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        stream = json.loads(self.rfile.read(int(self.headers["content-length"]))).get("stream")
        choice = {"index": 0, "delta" if stream else "message": MESSAGE, "finish_reason": "stop"}
        body = json.dumps({**COMMON, "object": "chat.completion.chunk" if stream else "chat.completion", "choices": [choice]})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if stream else "application/json")
        self.end_headers()
        self.wfile.write((f"data: {body}\n\ndata: [DONE]\n\n" if stream else body).encode())

    def log_message(self, *_):
        pass


async def main(url):
    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="k")))
    print(f"one answer: {(await agent.run('How?')).output!r}")
    async with agent.run_stream("How?") as run:
        print(f"streamed: {await run.get_output()!r}")


server = HTTPServer(("127.0.0.1", 0), Model)
Thread(target=server.serve_forever, daemon=True).start()
asyncio.run(main(f"http://127.0.0.1:{server.server_port}/v1"))
PY
seen=$(venv/bin/python client.py)
echo "$seen"
expected="one answer: 'Write  around it.'
streamed: 'Write <think> and </think> around it.'"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
