#!/bin/bash
# Runs the conformance suite of the Model Context Protocol against /mcp of a running binary, in both protocol versions.
#
#   TURNFOLD_BIN=target/debug/turnfold ops/mcp_conformance/run.sh
#
# Fails if a check fails that is not in expected_failures.tsv, or if one of those passes. Needs Python 3.10, Node 20 and the network for the
# suite. Not a part of ./check.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(realpath "${TURNFOLD_BIN:?the path of the binary}")
port=${PORT:-28027}
work=$(mktemp -d)
trap 'kill "$server" 2> /dev/null; rm -rf "$work"' EXIT

cd "$work"
# A model that is never asked: no check calls a strategy.
cat > turnfold.toml << 'TOML'
[providers.nobody]
base_url = "http://127.0.0.1:9/v1"
[strategies.chat]
model = "nobody/model"
TOML
"$bin" dev --listen "127.0.0.1:$port" > dev.log 2>&1 &
server=$!

echo '{"private":true}' > package.json
# The suite needs Node 22, which is a package as well.
npm install --silent @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22.23.3

for _ in {1..100}; do
  curl -sf "http://127.0.0.1:$port/readyz" > /dev/null && break
  sleep 0.2
done
for version in 2025-11-25 2026-07-28; do
  # It fails with the first check that does; the comparison below decides.
  node_modules/.bin/node node_modules/@modelcontextprotocol/conformance/dist/index.js server \
    --url "http://127.0.0.1:$port/mcp" --requirements "$version" --output-dir "$version" > "$version.log" 2>&1 || true
done
python3 "$here/compare.py" "$here/expected_failures.tsv" 2025-11-25 2026-07-28 || { tail -20 dev.log; exit 1; }
