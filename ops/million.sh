#!/usr/bin/env bash
# Runs batches of many turns on one machine, and measures what their number costs: the rate of each batch, lists, searches and plots beside
# the load and afterwards, the same lines again, memory, bytes, the checks of the whole store, a prune.
#
# Usage: ops/million.sh BINARY [BATCHES] [LINES] [postgres|sqlite]      needs Python 3 and curl; with postgres, PostgreSQL 15 or later and Redis
#
# Default: ten batches of 100,000 lines over PostgreSQL and Redis. A turn has four calls that answer at once. Each call is a step of its own.
set -euo pipefail

binary=$(realpath "$1") batches=${2:-10} lines=${3:-100000} engine=${4:-postgres}
here=$(dirname "$(realpath "$0")")
case $engine in
    # shellcheck source=ops/installation.sh
    postgres) source "$here/installation.sh"; roles=("api --listen 127.0.0.1:$api_port" worker worker) ;;
    # shellcheck source=ops/one_process.sh
    sqlite) source "$here/one_process.sh"; roles=("dev --listen 127.0.0.1:$api_port") ;;
    *) echo "unknown engine: $engine (postgres or sqlite)" >&2; exit 2 ;;
esac
processes=()
for role in "${roles[@]}"; do
    # shellcheck disable=SC2086
    "$binary" --config "$folder/turnfold.toml" $role > "process${#processes[@]}.log" 2>&1 & processes+=($!)
done
started+=("${processes[@]}")
until curl -sf "$url/readyz" >/dev/null; do sleep 0.2; done

since() { python3 -c "print(f'{$(seconds) - $1:.1f}')"; }
memory() { for pid in "${processes[@]}"; do awk '/VmHWM/ {printf "%d ", $2 / 1024}' "/proc/$pid/status"; done; }
write_lines() {
    python3 - "$1" "$lines" > lines.jsonl <<'P'
import json, sys
for nth in range(int(sys.argv[2])):
    body = {"strategy": "probe", "input": f"call 1; call 1; call 1; echo order {sys.argv[1]}-{nth} of the {nth % 1000}th customer"}
    print(json.dumps({"custom_id": f"{sys.argv[1]}-{nth}", "method": "POST", "url": "/v1/turns", "body": body}))
P
}
run_lines() { rm -f results.jsonl; tf batch run lines.jsonl --out results.jsonl --url "$url" >run.log 2>&1; }

# Asks for each list in turn, for a number of seconds, and prints p50 and p95 in milliseconds.
lists() { python3 "$here/lists.py" "$url" "$1"; }

echo "batch: turns/s; peak memory of the processes, MiB"
for batch in $(seq "$batches"); do
    write_lines "$batch"
    begun=$(seconds)
    run_lines & running=$!
    if [ "$batch" = "$batches" ]; then sleep 3; echo "lists beside batch $batch:"; lists 20; fi
    wait "$running"
    echo "$batch: $(python3 -c "print(round($lines / ($(seconds) - $begun)))"); $(memory)"
done
total=$((batches * lines))
begun=$(seconds)
# No turn is running now. The index is filled when it is no longer behind.
while curl -s "$url/v1/search?q=order" | grep -q '"is_behind":true'; do sleep 1; done
echo "search index filled after another $(since "$begun") s"
echo "lists when idle:"; lists 20
echo "peak memory of the processes: $(memory)MiB"
bytes
begun=$(seconds); run_lines; echo "the same $lines lines again, their results reused: $(since "$begun") s"
for check in "store verify" "audit replay" "audit verify"; do
    begun=$(seconds)
    # shellcheck disable=SC2086
    # 6: without a checkpoint, `audit verify` cannot check everything.
    tf $check > check.log 2>&1 || [ $? = 6 ] || { tail -5 check.log; echo "$check failed"; }
    echo "$check: $(since "$begun") s"
done
begun=$(seconds); tf store prune --older-than 0s --yes >/dev/null 2>&1
echo "prune: $(python3 -c "print(round($total / ($(seconds) - $begun)))") threads/s"
