#!/bin/bash
# In @huggingface/jinja, made for chat templates, 0 equals '', a list equals no other, and `strip('/')` strips nothing: another prompt.
#
# Seen with @huggingface/jinja 0.5.11, beside Jinja2 3.1.6 for Python; on the left the template and its `x`, then what each makes of it:
#   {{ 'no' if x == '' else 'yes' }} 0: Jinja2 yes, JavaScript no
#   {{ 'no' if x == [1] else 'yes' }} [1]: Jinja2 no, JavaScript yes
#   {{ x.strip('/') }} "/a/": Jinja2 a, JavaScript /a/
#   {{ x | int }} "12 items": Jinja2 0, JavaScript 12
#   {{ x % 3 }} -1: Jinja2 2, JavaScript -1
#   {{ x | title }} "iOS": Jinja2 Ios, JavaScript IOS
#   {{ x }} {"on": true}: Jinja2 {'on': True}, JavaScript {"on": true}
#   {{ 'x' ~ x }} null: Jinja2 xNone, JavaScript an error
# Values are compared with JavaScript's `==`, by which 0 is '' and lists are equal only if they are one. The arguments of strip, lstrip
# and rstrip are not read. So the same template over the same messages gives a model another prompt in JavaScript than the one it was
# trained with, and only the last row says so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund @huggingface/jinja@0.5.11 > /dev/null
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check Jinja2==3.1.6
cat > render.mjs <<'JS'
import { readFileSync } from "node:fs";
import { Template } from "@huggingface/jinja";

const texts = JSON.parse(readFileSync(0, "utf8")).map(([template, x]) => {
  try {
    return new Template(template).render({ x });
  } catch {
    return "an error";
  }
});
console.log(JSON.stringify(texts));
JS
cat > compare.py <<'PY'
import json
import subprocess
from jinja2.sandbox import ImmutableSandboxedEnvironment

CASES = [
    ("{{ 'no' if x == '' else 'yes' }}", 0),
    ("{{ 'no' if x == [1] else 'yes' }}", [1]),
    ("{{ x.strip('/') }}", "/a/"),
    ("{{ x | int }}", "12 items"),
    ("{{ x % 3 }}", -1),
    ("{{ x | title }}", "iOS"),
    ("{{ x }}", {"on": True}),
    ("{{ 'x' ~ x }}", None),
]
environment = ImmutableSandboxedEnvironment()
texts = json.loads(subprocess.run(["node", "render.mjs"], input=json.dumps(CASES), text=True, capture_output=True, check=True).stdout)
for (template, x), text in zip(CASES, texts):
    print(f"{template} {json.dumps(x)}: Jinja2 {environment.from_string(template).render(x=x)}, JavaScript {text}")
PY
seen=$(venv/bin/python compare.py)
echo "$seen"
expected=$(cat << 'TEXT'
{{ 'no' if x == '' else 'yes' }} 0: Jinja2 yes, JavaScript no
{{ 'no' if x == [1] else 'yes' }} [1]: Jinja2 no, JavaScript yes
{{ x.strip('/') }} "/a/": Jinja2 a, JavaScript /a/
{{ x | int }} "12 items": Jinja2 0, JavaScript 12
{{ x % 3 }} -1: Jinja2 2, JavaScript -1
{{ x | title }} "iOS": Jinja2 Ios, JavaScript IOS
{{ x }} {"on": true}: Jinja2 {'on': True}, JavaScript {"on": true}
{{ 'x' ~ x }} null: Jinja2 xNone, JavaScript an error
TEXT
)
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
