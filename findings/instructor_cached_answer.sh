#!/bin/bash
# Instructor validates an answer from its cache a second time: validators change it again, aliases refuse it, and left-out fields are gone.
#
# Seen with instructor 1.17.0 and openai 3.3.0; the model's arguments, then what the same call returns the first and the second time:
#   {"share": 25}: share=0.25, then share=0.0025
#   {"fullName": "Ann"}: full_name='Ann', then ValidationError
#   {"total": 7, "note": "paid"}: total=7 note='paid', then total=7 note=''
# `share` has a validator that divides a percentage by 100, `full_name` has the alias fullName, and `note` has exclude=True. The cache holds
# what pydantic dumps of the finished object, by field names, and reads it as if it came from the model. The second call sends no request,
# so a repeated test or a resumed batch gets other numbers than the first run, from the same answer of the same model.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check instructor==1.17.0 openai==3.3.0 pydantic==2.14.4
cat > client.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
import instructor
from instructor.cache import AutoCache
from openai import OpenAI
from pydantic import BaseModel, Field, ValidationError, field_validator


class Share(BaseModel):
    share: float

    @field_validator("share")
    @classmethod
    def fraction(cls, percent):
        return percent / 100


class Person(BaseModel):
    full_name: str = Field(alias="fullName")


class Bill(BaseModel):
    total: int
    note: str = Field(default="", exclude=True)


ANSWERS = {"Share": {"share": 25}, "Person": {"fullName": "Ann"}, "Bill": {"total": 7, "note": "paid"}}
requests = []


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        name = json.loads(self.rfile.read(int(self.headers["content-length"])))["tools"][0]["function"]["name"]
        requests.append(name)
        call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(ANSWERS[name])}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = json.dumps({"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Model)
Thread(target=server.serve_forever, daemon=True).start()
client = instructor.from_openai(OpenAI(api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1"))
cache = AutoCache()


def ask(kind):
    try:
        return str(client.create(model="m", messages=[{"role": "user", "content": "Go"}], response_model=kind, cache=cache))
    except ValidationError as error:
        return type(error).__name__


for kind in [Share, Person, Bill]:
    print(f"{json.dumps(ANSWERS[kind.__name__])}: {ask(kind)}, then {ask(kind)}")
assert requests == ["Share", "Person", "Bill"]
PY
seen=$(venv/bin/python client.py)
echo "$seen"
expected='{"share": 25}: share=0.25, then share=0.0025
{"fullName": "Ann"}: full_name='"'Ann'"', then ValidationError
{"total": 7, "note": "paid"}: total=7 note='"'paid'"', then total=7 note='"''"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
