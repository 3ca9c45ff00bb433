#!/bin/bash
# OpenAI's Python client cannot read a stream that has both ids and comments: it takes the comment for an event without data.
#
# Seen with openai 3.57.0, beside httpx-sse 0.4.3 and sseclient-py 1.9.0. The answer "Yes." in two chunks, with or without an `id:` line in
# each, and with or without a comment (": wait" and an empty line) after each but the last:
#   neither: openai 'Yes.', httpx-sse 3 events, sseclient-py 3 events
#   comment: openai 'Yes.', httpx-sse 3 events, sseclient-py 3 events
#   ids: openai 'Yes.', httpx-sse 3 events, sseclient-py 3 events
#   ids and comment: openai JSONDecodeError, httpx-sse 5 events, sseclient-py 3 events
# Servers send comments so that a quiet connection stays open. In the standard an empty line dispatches nothing if no data came since the
# last one; here it does once an id was seen, since an id is kept. The client reads the empty data as JSON and fails in the middle of an
# answer, but only if the model paused long enough for a comment. Who uses httpx-sse has to skip events without data.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openai==3.57.0 httpx-sse==0.4.3 sseclient-py==1.9.0 httpx==0.28.1
cat > client.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
import httpx
from httpx_sse import EventSource
from openai import OpenAI
from sseclient import SSEClient

WAYS = ["neither", "comment", "ids", "ids and comment"]


def stream(way):
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": reason} for text, reason in [("Yes", None), (".", "stop")]]
    events = [json.dumps({"id": "a", "created": 1, "model": "m", "choices": [choice]}) for choice in choices] + ["[DONE]"]
    lines = [f"id: {n}\ndata: {data}\n\n" if "ids" in way else f"data: {data}\n\n" for n, data in enumerate(events)]
    return (": wait\n\n" if "comment" in way else "").join(lines).encode()


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        way = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(stream(way))

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Model)
Thread(target=server.serve_forever, daemon=True).start()
openai = OpenAI(api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1")
for way in WAYS:
    try:
        chunks = openai.chat.completions.create(model=way, messages=[{"role": "user", "content": "Ready?"}], stream=True)
        answer = repr("".join(chunk.choices[0].delta.content for chunk in chunks))
    except json.JSONDecodeError:
        answer = "JSONDecodeError"
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream(way))
    counts = [len(list(events)) for events in (EventSource(response).iter_sse(), SSEClient([stream(way)]).events())]
    print(f"{way}: openai {answer}, httpx-sse {counts[0]} events, sseclient-py {counts[1]} events")
PY
seen=$(venv/bin/python client.py)
echo "$seen"
expected="neither: openai 'Yes.', httpx-sse 3 events, sseclient-py 3 events
comment: openai 'Yes.', httpx-sse 3 events, sseclient-py 3 events
ids: openai 'Yes.', httpx-sse 3 events, sseclient-py 3 events
ids and comment: openai JSONDecodeError, httpx-sse 5 events, sseclient-py 3 events"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
