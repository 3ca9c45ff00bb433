#!/bin/bash
# LiteLLM passes on the first piece of a streamed refusal and drops the rest; it estimates the usage of a stream, not of an answer.
#
# Seen with litellm 1.110.2 and a server that sends no usage; two answers, "Yes." and the refusal "I cannot do that.", in both ways:
#   text, one answer: 'Yes.', refusal None, 0 tokens
#   text, streamed: 'Yes.', refusal None, 10 tokens
#   refusal, one answer: None, refusal 'I cannot do that.', 0 tokens
#   refusal, streamed: '', refusal 'I cannot ', 8 tokens
# The pieces were "I cannot " and "do that."; only the one that names the role comes through, and `stream_chunk_builder` makes the answer of
# it. The tokens of a stream are counted by a tokenizer of LiteLLM's own, and are priced like those that a provider reports.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check litellm==1.110.2
cat > client.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
import litellm

PIECES = {"text": [{"content": "Yes"}, {"content": "."}], "refusal": [{"refusal": "I cannot "}, {"refusal": "do that."}]}


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        pieces = PIECES[request["model"]]
        whole = {"content": None, **{name: text + pieces[1][name] for name, text in pieces[0].items()}}
        ends = [{"delta": {"role": "assistant", **pieces[0]}}, {"delta": pieces[1]}, {"delta": {}, "finish_reason": "stop"}]
        ends = ends if request.get("stream") else [{"message": {"role": "assistant", **whole}, "finish_reason": "stop"}]
        texts = [json.dumps({"id": "a", "created": 1, "model": "m", "choices": [{"index": 0, **end}]}) for end in ends]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if request.get("stream") else "application/json")
        self.end_headers()
        events = "".join(f"data: {text}\n\n" for text in [*texts, "[DONE]"])
        self.wfile.write((events if request.get("stream") else texts[0]).encode())
    log_message = lambda *_: None


def show(name, answer):
    message = answer.choices[0].message
    print(f"{name}: {message.content!r}, refusal {message.get('refusal')!r}, {answer.usage.total_tokens} tokens")


server = HTTPServer(("127.0.0.1", 0), Model)
Thread(target=server.serve_forever, daemon=True).start()
common = {"messages": [{"role": "user", "content": "x"}], "api_key": "k", "api_base": f"http://127.0.0.1:{server.server_port}/v1"}
for name in PIECES:
    show(f"{name}, one answer", litellm.completion(model=f"openai/{name}", **common))
    show(f"{name}, streamed", litellm.stream_chunk_builder(list(litellm.completion(model=f"openai/{name}", stream=True, **common))))
PY
seen=$(LITELLM_LOCAL_MODEL_COST_MAP=True venv/bin/python client.py | grep "tokens$")
echo "$seen"
expected="text, one answer: 'Yes.', refusal None, 0 tokens
text, streamed: 'Yes.', refusal None, 10 tokens
refusal, one answer: None, refusal 'I cannot do that.', 0 tokens
refusal, streamed: '', refusal 'I cannot ', 8 tokens"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
