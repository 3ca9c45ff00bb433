#!/bin/bash
# `z.fromJSONSchema` of zod drops rules without a word, and so makes schemas that refuse what they describe.
#
# Seen with zod 4.6.7, beside ajv 8.20.0; on the left the schema, then the value:
#   {"type":"object","required":["to"]} {}: zod accepts, ajv refuses
#   {"type":"object","anyOf":[{"required":["to"]},{"required":["cc"]}]} {}: zod accepts, ajv refuses
#   {"oneOf":[{"type":"object","required":["to"]},{"type":"object","required":["cc"]}]} {"to":1}: zod refuses, ajv accepts
#   {"type":"number","enum":[1,2,5],"minimum":3} 1: zod accepts, ajv refuses
#   {"allOf":[{"maxLength":2},{"type":"string"}]} "long": zod accepts, ajv refuses
#   {"$ref":"#/$defs/name","maxLength":2,"$defs":{"name":{"type":"string"}}} "long": zod accepts, ajv refuses
#   {"const":{"to":1}} {"to":1}: zod refuses, ajv accepts
# A name in `required` counts only if `properties` has it, and other rules only beside a `type`, and not beside `enum` or `$ref`. Two halves
# of a `oneOf` that differ in such rules both fit, which is one too many. An object as `const` equals nothing, itself included. Keywords
# that are not known at all, such as `dependentRequired`, are refused with an error; these are not.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund zod@4.6.7 ajv@8.20.0 > /dev/null
cat > compare.mjs <<'JS'
import { Ajv2020 } from "ajv/dist/2020.js";
import * as z from "zod";

const ajv = new Ajv2020({ strict: false });
for (const [schema, value] of [
  [{ type: "object", required: ["to"] }, {}],
  [{ type: "object", anyOf: [{ required: ["to"] }, { required: ["cc"] }] }, {}],
  [{ oneOf: [{ type: "object", required: ["to"] }, { type: "object", required: ["cc"] }] }, { to: 1 }],
  [{ type: "number", enum: [1, 2, 5], minimum: 3 }, 1],
  [{ allOf: [{ maxLength: 2 }, { type: "string" }] }, "long"],
  [{ $ref: "#/$defs/name", maxLength: 2, $defs: { name: { type: "string" } } }, "long"],
  [{ const: { to: 1 } }, { to: 1 }],
]) {
  const says = (holds) => (holds ? "accepts" : "refuses");
  const zod = says(z.fromJSONSchema(schema).safeParse(value).success);
  console.log(`${JSON.stringify(schema)} ${JSON.stringify(value)}: zod ${zod}, ajv ${says(ajv.validate(schema, value))}`);
}
JS
seen=$(node compare.mjs)
echo "$seen"
expected='{"type":"object","required":["to"]} {}: zod accepts, ajv refuses
{"type":"object","anyOf":[{"required":["to"]},{"required":["cc"]}]} {}: zod accepts, ajv refuses
{"oneOf":[{"type":"object","required":["to"]},{"type":"object","required":["cc"]}]} {"to":1}: zod refuses, ajv accepts
{"type":"number","enum":[1,2,5],"minimum":3} 1: zod accepts, ajv refuses
{"allOf":[{"maxLength":2},{"type":"string"}]} "long": zod accepts, ajv refuses
{"$ref":"#/$defs/name","maxLength":2,"$defs":{"name":{"type":"string"}}} "long": zod accepts, ajv refuses
{"const":{"to":1}} {"to":1}: zod refuses, ajv accepts'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
