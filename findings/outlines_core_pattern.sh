#!/bin/bash
# outlines-core makes a regular expression of a JSON Schema that admits texts that are no JSON, and no text that the schema describes.
#
# Seen with outlines-core 0.2.14, beside jsonschema 4.26.0; on the left the schema, then a text, and who takes it:
#   {"pattern": "^(yes|no)$"} "yes": regex takes, schema takes
#   {"pattern": "^yes$|^no$"} "yes": regex refuses, schema takes
#   {"pattern": "^yes$|^no$"} "yes: regex takes, not JSON
#   {"pattern": "^yes$|^no$"} no": regex takes, not JSON
#   {"pattern": "^[^,]+$"} "a"b": regex takes, not JSON
#   {"pattern": "[0-9]{2}"} "no 12": regex refuses, schema takes
#   {"format": "date-time"} "2026-01-02T03:04:05+01:00": regex refuses, schema takes
#   {"format": "date-time"} "2026-01-02T03:04:05": regex takes, schema refuses
# The pattern is put between two quotes as it stands, so that a `|` in it parts the quotes, and `[^,]` or `.` takes in a third one. A model
# that is held to this expression cannot write "yes" with both quotes, nor a time with an offset, however good it is.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check outlines-core==0.2.14 "jsonschema[format]==4.26.0"
cat > compare.py <<'PY'
import json
import re
from jsonschema import Draft202012Validator
from outlines_core.json_schema import build_regex_from_schema

for rule, text in [
    ({"pattern": "^(yes|no)$"}, '"yes"'),
    ({"pattern": "^yes$|^no$"}, '"yes"'),
    ({"pattern": "^yes$|^no$"}, '"yes'),
    ({"pattern": "^yes$|^no$"}, 'no"'),
    ({"pattern": "^[^,]+$"}, '"a"b"'),
    ({"pattern": "[0-9]{2}"}, '"no 12"'),
    ({"format": "date-time"}, '"2026-01-02T03:04:05+01:00"'),
    ({"format": "date-time"}, '"2026-01-02T03:04:05"'),
]:
    schema = {"type": "string", **rule}
    regex = "takes" if re.fullmatch(build_regex_from_schema(json.dumps(schema)), text) else "refuses"
    try:
        valid = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).is_valid(json.loads(text))
        says = f"schema {'takes' if valid else 'refuses'}"
    except json.JSONDecodeError:
        says = "not JSON"
    print(f"{json.dumps(rule)} {text}: regex {regex}, {says}")
PY
seen=$(venv/bin/python compare.py)
echo "$seen"
expected='{"pattern": "^(yes|no)$"} "yes": regex takes, schema takes
{"pattern": "^yes$|^no$"} "yes": regex refuses, schema takes
{"pattern": "^yes$|^no$"} "yes: regex takes, not JSON
{"pattern": "^yes$|^no$"} no": regex takes, not JSON
{"pattern": "^[^,]+$"} "a"b": regex takes, not JSON
{"pattern": "[0-9]{2}"} "no 12": regex refuses, schema takes
{"format": "date-time"} "2026-01-02T03:04:05+01:00": regex refuses, schema takes
{"format": "date-time"} "2026-01-02T03:04:05": regex takes, schema refuses'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
