#!/bin/bash
# Generates clients from the OpenAPI document of a running binary, and calls ten operations with each.
#
#   TURNFOLD_BIN=target/debug/turnfold ops/generated_clients/run.sh
#
# Needs Python 3.10, Node 20 and Java 11, and the network for the generators. Not a part of ./check.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(realpath "${TURNFOLD_BIN:?the path of the binary}")
port=${PORT:-28026}
url=http://127.0.0.1:$port
work=$(mktemp -d)
trap 'kill "$server" 2> /dev/null; rm -rf "$work"' EXIT

cd "$work"
"$bin" dev --listen "127.0.0.1:$port" > dev.log 2>&1 &
server=$!
for _ in {1..100}; do
  curl -sf "$url/readyz" > /dev/null && break
  sleep 0.2
done
curl -sf "$url/openapi.json" > openapi.json

python3 -m venv venv
venv/bin/pip install -q openapi-python-client==0.29.1 ruff openapi-generator-cli==7.26.0 python-dateutil pydantic urllib3 typing-extensions lazy-imports

echo "openapi-python-client"
# Streams of JSON lines have no type in this generator, and it says so. A schema that it leaves out is an error.
PATH=$PATH:$work/venv/bin openapi-python-client generate --path openapi.json --output-path one --meta none > one.log 2>&1
if grep -A3 "Unable to process schema" one.log; then exit 1; fi
venv/bin/python "$here/python_client.py" "$url"

echo "openapi-generator"
venv/bin/openapi-generator-cli generate -i openapi.json -g python -o two --package-name two > two.log 2>&1 || { tail -20 two.log; exit 1; }
PYTHONPATH=two venv/bin/python "$here/generator_client.py" "$url"

echo "openapi-typescript"
echo '{"private":true,"type":"module"}' > package.json
npm install --silent openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 @types/node@24
npx openapi-typescript openapi.json -o schema.d.ts > three.log
cp "$here/typescript_client.ts" .
npx tsc --strict --skipLibCheck --module nodenext --moduleResolution nodenext --target es2022 --types node typescript_client.ts
node typescript_client.js "$url"
