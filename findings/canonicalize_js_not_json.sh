#!/bin/bash
# `canonicalize` for JavaScript writes text that is not JSON for objects that JSON.stringify writes without trouble.
#
# Seen with canonicalize 4.0.0, an implementation of RFC 8785; on the left the value in JavaScript, then its text and, in brackets, that of
# JSON.stringify:
#   { a: undefined }: {} ({})
#   { a() {} }: {"a":undefined} ({})
#   { a: { toJSON() {} } }: {"a":undefined} ({})
#   [, 1]: [,1] ([null,1])
#   [{ toJSON() {} }]: [] ([null])
#   { a: new Number(3) }: {"a":{}} ({"a":3})
#   { a: new String("b") }: {"a":{"0":"b"}} ({"a":"b"})
#   NaN: refused (null)
# It refuses NaN and lone surrogates, but hands the rest over to whoever hashes or signs it. The digest of such an object cannot be
# checked by anyone who has its JSON: the text that was hashed is no JSON, or that of another value.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund canonicalize@4.0.0 > /dev/null
cat > show.mjs <<'JS'
import canonicalize from "canonicalize";

const values = {
  "{ a: undefined }": { a: undefined },
  "{ a() {} }": { a() {} },
  "{ a: { toJSON() {} } }": { a: { toJSON() {} } },
  "[, 1]": [, 1],
  "[{ toJSON() {} }]": [{ toJSON() {} }],
  "{ a: new Number(3) }": { a: new Number(3) },
  '{ a: new String("b") }': { a: new String("b") },
  NaN: NaN,
};
for (const [name, value] of Object.entries(values)) {
  let text = "refused";
  try {
    text = canonicalize(value);
  } catch {}
  console.log(`${name}: ${text} (${JSON.stringify(value)})`);
}
JS
seen=$(node show.mjs)
echo "$seen"
expected='{ a: undefined }: {} ({})
{ a() {} }: {"a":undefined} ({})
{ a: { toJSON() {} } }: {"a":undefined} ({})
[, 1]: [,1] ([null,1])
[{ toJSON() {} }]: [] ([null])
{ a: new Number(3) }: {"a":{}} ({"a":3})
{ a: new String("b") }: {"a":{"0":"b"}} ({"a":"b"})
NaN: refused (null)'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
