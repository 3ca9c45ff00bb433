#!/bin/bash
# Runs the published clients of OpenAI's API against turnfold, with nothing but address and key changed, and prints a table.
#
#   TURNFOLD_BIN=target/debug/turnfold ops/clients/run.sh [-o json] [--accept] [ROW …]
#
# A row is a file of rows/. Its first line has the pinned packages. The exit code is 1 if a cell differs from expected.json.
# Needs Python 3.11, Node 20 and the network for the clients, and 1 GB. Not a part of ./check.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(realpath "${TURNFOLD_BIN:?the path of the binary}")
port=${PORT:-28030}
work=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2> /dev/null; rm -rf "$work"' EXIT
cd "$work"

cat > turnfold.toml << END
[providers.scripted]
base_url = "http://127.0.0.1:$((port + 1))/v1"
dialect = "openai"

[strategies.chat]
model = "scripted/gpt-4o-mini"

[strategies.action_plan]
model = "scripted/gpt-4o-mini"

[commands.book]
description = "Books a table in a restaurant."
url = "http://127.0.0.1:$((port + 1))/book"
END
python3 "$here/model.py" $((port + 1)) > model.log 2>&1 &
servers+=($!)
"$bin" dev --listen "127.0.0.1:$port" > dev.log 2>&1 &
servers+=($!)
for _ in {1..100}; do
  curl -sf "http://127.0.0.1:$port/readyz" > /dev/null && break
  sleep 0.2
done

# uv installs in seconds what pip installs in minutes. It takes the index that pip is configured with.
python3 -m venv tools
tools/bin/pip install --quiet --no-cache-dir uv==0.13.9
index=$(tools/bin/pip config get global.index-url 2> /dev/null || echo "${PIP_INDEX_URL:-}")
[ -z "$index" ] || export UV_DEFAULT_INDEX=$index
export UV_CACHE_DIR=$work/uv CLIENTS_URL=http://127.0.0.1:$port OPENAI_BASE_URL=http://127.0.0.1:$port/v1 OPENAI_API_KEY=any
python3 "$here/table.py" "$work" "$@"
