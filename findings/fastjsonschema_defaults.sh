#!/bin/bash
# fastjsonschema writes the defaults of a branch that does not fit into the data, and then refuses data for what it wrote itself.
#
# Seen with fastjsonschema 2.22.3, beside jsonschema 4.26.0, which takes the data, {"by": "cash"}, by each of these schemas; card
# is {"properties": {"fee": {"default": 3}, "by": {"const": "card"}}}, and fee is {"properties": {"fee": {"default": 3}}}. What comes back:
#   {"anyOf": [card, {}]}: {"by": "cash", "fee": 3}
#   {"not": card}: {"by": "cash", "fee": 3}
#   {"if": card, "then": false}: {"by": "cash", "fee": 3}
#   {"oneOf": [{"required": ["fee"]}, fee]}: {"by": "cash", "fee": 3}
#   {"oneOf": [fee, {"required": ["fee"]}]}: refused, must be valid exactly by one definition (2 matches found)
#   {"allOf": [fee, {"propertyNames": {"const": "by"}}]}: refused, must be named by propertyName definition
# That defaults are filled in is documented. But a payment in cash gets the fee of a card, from a branch that was tried and dropped, or
# that stands under `not`; and whether data is valid depends on the order of a `oneOf`. With `use_default=False` all six take the data and
# leave it as it is.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check fastjsonschema==2.22.3 jsonschema==4.26.0
cat > compare.py <<'PY'
import json
import fastjsonschema
from jsonschema import Draft7Validator

FEE = {"properties": {"fee": {"default": 3}}}
CARD = {"properties": {"fee": {"default": 3}, "by": {"const": "card"}}}
NEEDS_FEE = {"required": ["fee"]}
for name, schema in {
    '{"anyOf": [card, {}]}': {"anyOf": [CARD, {}]},
    '{"not": card}': {"not": CARD},
    '{"if": card, "then": false}': {"if": CARD, "then": False},
    '{"oneOf": [{"required": ["fee"]}, fee]}': {"oneOf": [NEEDS_FEE, FEE]},
    '{"oneOf": [fee, {"required": ["fee"]}]}': {"oneOf": [FEE, NEEDS_FEE]},
    '{"allOf": [fee, {"propertyNames": {"const": "by"}}]}': {"allOf": [FEE, {"propertyNames": {"const": "by"}}]},
}.items():
    data = {"by": "cash"}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    assert Draft7Validator(schema).is_valid(data)
    assert fastjsonschema.compile(schema, use_default=False)(dict(data)) == data
    try:
        said = json.dumps(fastjsonschema.compile(schema)(data))
    except fastjsonschema.JsonSchemaValueException as error:
        said = f"refused, {error.message.removeprefix('data ')}"
    print(f"{name}: {said}")
PY
seen=$(venv/bin/python compare.py)
echo "$seen"
expected='{"anyOf": [card, {}]}: {"by": "cash", "fee": 3}
{"not": card}: {"by": "cash", "fee": 3}
{"if": card, "then": false}: {"by": "cash", "fee": 3}
{"oneOf": [{"required": ["fee"]}, fee]}: {"by": "cash", "fee": 3}
{"oneOf": [fee, {"required": ["fee"]}]}: refused, must be valid exactly by one definition (2 matches found)
{"allOf": [fee, {"propertyNames": {"const": "by"}}]}: refused, must be named by propertyName definition'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
