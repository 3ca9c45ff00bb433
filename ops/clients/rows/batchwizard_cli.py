# packages: batchwizard==0.5.0
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from cells import MODEL, PLAIN, RAIN, TYPED, row

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"const": "4711"}}}}}
PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def ask(text, **more):
    home = pathlib.Path(tempfile.mkdtemp())

    def batchwizard(*args):
        env = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home)}
        done = subprocess.run([pathlib.Path(sys.executable).parent / "batchwizard", *args], env=env, cwd=home, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr or done.stdout)

    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **more}
    line = {"custom_id": "one", "method": "POST", "url": "/v1/chat/completions", "body": body}
    (home / "lines.jsonl").write_text(json.dumps(line) + "\n")
    batchwizard("submit", "lines.jsonl")
    batchwizard("watch", "--output-directory", "results", "--check-interval", "1")
    return "".join(path.read_text() for path in (home / "results").rglob("*.jsonl"))


SCHEMA = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}}
row("batchwizard", plain=lambda: ask(PLAIN), stream="batches do not stream", tools=lambda: ask(RAIN, tools=[TOOL]), typed=lambda: ask(TYPED, response_format=SCHEMA))
