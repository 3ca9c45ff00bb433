#!/bin/bash
# A model of datamodel-code-generator writes other values than it read: twelve months as 360 days, and a number as a text that it is not.
#
# Seen with datamodel-code-generator 0.89.0 and pydantic 2.14.4; on the left the schema of a field and a value that jsonschema 4.26.0 takes,
# then what the generated model writes after reading it, and what jsonschema says of that:
#   {"type": "string", "format": "duration"} "P1M": "P30D", valid
#   {"type": "string", "format": "duration"} "P12M": "P360D", valid
#   {"type": "string", "format": "duration"} "P1Y": "P1Y", valid
#   {"type": "string", "format": "uri"} "https://a.example": "https://a.example/", valid
#   {"type": "number", "format": "decimal"} 0.5: "0.5", not valid
#   {"type": "object", "patternProperties": {"^x-": {"type": "integer"}}} {"y": 1}: refused
# A subscription of a month that passes through such a model ends after 30 days, and a step's result no longer fits the schema that the
# model was made of. The last schema lets other names through; the model takes the pattern for a rule on all names.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check \
  datamodel-code-generator==0.89.0 pydantic==2.14.4 "jsonschema[format]==4.26.0"
cat > compare.py <<'PY'
import json
import subprocess
import sys
from importlib import import_module
from jsonschema import Draft202012Validator

DURATION = {"type": "string", "format": "duration"}
COMMAND = ["--input-file-type", "jsonschema", "--output-model-type", "pydantic_v2.BaseModel", "--output"]
for n, (schema, value) in enumerate([
    (DURATION, "P1M"),
    (DURATION, "P12M"),
    (DURATION, "P1Y"),
    ({"type": "string", "format": "uri"}, "https://a.example"),
    ({"type": "number", "format": "decimal"}, 0.5),
    ({"type": "object", "patternProperties": {"^x-": {"type": "integer"}}}, {"y": 1}),
]):
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert validator.is_valid(value)
    whole = json.dumps({"title": "Model", "type": "object", "properties": {"value": schema}})
    command = [f"{sys.prefix}/bin/datamodel-codegen", *COMMAND, f"model{n}.py"]
    subprocess.run(command, input=whole, text=True, check=True, stderr=subprocess.DEVNULL)
    try:
        read = import_module(f"model{n}").Model.model_validate_json(json.dumps({"value": value}))
        written = json.loads(read.model_dump_json())["value"]
        said = f"{json.dumps(written)}, {'valid' if validator.is_valid(written) else 'not valid'}"
    except ValueError:
        said = "refused"
    print(f"{json.dumps(schema)} {json.dumps(value)}: {said}")
PY
seen=$(venv/bin/python compare.py)
echo "$seen"
expected='{"type": "string", "format": "duration"} "P1M": "P30D", valid
{"type": "string", "format": "duration"} "P12M": "P360D", valid
{"type": "string", "format": "duration"} "P1Y": "P1Y", valid
{"type": "string", "format": "uri"} "https://a.example": "https://a.example/", valid
{"type": "number", "format": "decimal"} 0.5: "0.5", not valid
{"type": "object", "patternProperties": {"^x-": {"type": "integer"}}} {"y": 1}: refused'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
