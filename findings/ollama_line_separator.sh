#!/bin/bash
# Ollama's Python client fails in the middle of an answer that has U+2028, U+2029 or U+0085; its JavaScript client does not.
#
# Seen with ollama 0.6.3 and httpx 0.28.1 for Python, and ollama 0.6.4 for JavaScript. A server streams "Yes", the character and "No." in a
# line of JSON, raw as JSON allows it; on the left the character:
#   U+000A, escaped: Python 'Yes\nNo.', JavaScript 'Yes\nNo.'
#   U+00A0: Python 'Yes\xa0No.', JavaScript 'Yes\xa0No.'
#   U+0085: Python JSONDecodeError, JavaScript 'Yes\x85No.'
#   U+2028: Python JSONDecodeError, JavaScript 'Yes\u2028No.'
#   U+2029: Python JSONDecodeError, JavaScript 'Yes\u2029No.'
# The lines are those of httpx's `iter_lines`, which splits as `str.splitlines` does: at these characters too, though they stand within a
# string and the format ends lines at U+000A alone. Go's JSON writer escapes two of the three, so a server in Go sends U+0085 raw; others
# that speak this protocol may send all of them. An answer that is not streamed is read in each case.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund ollama@0.6.4 > /dev/null
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check ollama==0.6.3 httpx==0.28.1
cat > client.mjs <<'JS'
import { Ollama } from "ollama";

const [host, model] = process.argv.slice(2);
let text = "";
for await (const part of await new Ollama({ host }).chat({ model, messages: [{ role: "user", content: "Ready?" }], stream: true })) {
  text += part.message.content;
}
console.log(JSON.stringify(text));
JS
cat > client.py <<'PY'
import json
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from ollama import Client


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = f"Yes{chr(int(request['model'], 16))}No."
        parts = [{"message": {"role": "assistant", "content": text}, "done": False}]
        parts.append({"message": {"role": "assistant", "content": ""}, "done": True})
        if not request["stream"]:
            parts = [parts[0] | {"done": True}]
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.end_headers()
        self.wfile.write("".join(json.dumps(part, ensure_ascii=False) + "\n" for part in parts).encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
Thread(target=server.serve_forever, daemon=True).start()
host = f"http://127.0.0.1:{server.server_port}"
messages = [{"role": "user", "content": "Ready?"}]
for code in ["000A", "00A0", "0085", "2028", "2029"]:
    client = Client(host=host)
    whole = client.chat(model=code, messages=messages).message.content
    assert whole == f"Yes{chr(int(code, 16))}No."
    try:
        python = ascii("".join(part.message.content for part in client.chat(model=code, messages=messages, stream=True)))
    except json.JSONDecodeError:
        python = "JSONDecodeError"
    text = json.loads(subprocess.run(["node", "client.mjs", host, code], text=True, capture_output=True, check=True).stdout)
    print(f"U+{code}{', escaped' if code == '000A' else ''}: Python {python}, JavaScript {ascii(text)}")
PY
seen=$(venv/bin/python client.py)
echo "$seen"
expected=$(cat << 'TEXT'
U+000A, escaped: Python 'Yes\nNo.', JavaScript 'Yes\nNo.'
U+00A0: Python 'Yes\xa0No.', JavaScript 'Yes\xa0No.'
U+0085: Python JSONDecodeError, JavaScript 'Yes\x85No.'
U+2028: Python JSONDecodeError, JavaScript 'Yes\u2028No.'
U+2029: Python JSONDecodeError, JavaScript 'Yes\u2029No.'
TEXT
)
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
