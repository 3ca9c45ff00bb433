#!/usr/bin/env bash
# Runs batches of many turns over PostgreSQL and Redis on one machine, and measures what their number costs: the rate of each batch, lists
# beside the load and afterwards, the same lines again, memory, bytes, the checks of the whole store, a prune.
#
# Usage: ops/million.sh BINARY [BATCHES] [LINES]      needs PostgreSQL 15 or later, Redis, Python 3 and curl
#
# Default: ten batches of 100,000 lines. A turn has four calls that answer at once. Each call is a step of its own.
set -euo pipefail

binary=$(realpath "$1") batches=${2:-10} lines=${3:-100000}
# shellcheck source=ops/installation.sh
source "$(dirname "$(realpath "$0")")/installation.sh"
processes=()
for role in "api --listen 127.0.0.1:$api_port" worker worker; do
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
    body = {"strategy": "probe", "input": "call 1; call 1; call 1; echo hi"}
    print(json.dumps({"custom_id": f"{sys.argv[1]}-{nth}", "method": "POST", "url": "/v1/turns", "body": body}))
P
}
run_lines() { rm -f results.jsonl; tf batch run lines.jsonl --out results.jsonl --url "$url" >run.log 2>&1; }

# Asks for each list in turn, for a number of seconds, and prints p50 and p95 in milliseconds.
lists() {
    python3 - "$url" "$1" <<'P'
import sys, time, urllib.request
url, until = sys.argv[1], time.monotonic() + float(sys.argv[2])
paths = ["/v1/turns", "/v1/turns?limit=1000", "/v1/threads", "/v1/batches", "/v1/stats"]
taken = {path: [] for path in paths}
while time.monotonic() < until:
    for path in paths:
        begun = time.monotonic()
        urllib.request.urlopen(url + path).read()
        taken[path].append((time.monotonic() - begun) * 1000)
    time.sleep(0.2)
for path, values in taken.items():
    first, values = values[0], sorted(values)
    at = lambda share: values[min(len(values) - 1, int(len(values) * share))]
    print(f"    {path}: first {first:.0f} ms, p50 {at(0.5):.0f}, p95 {at(0.95):.0f} of {len(values)}")
P
}

echo "batch: turns/s; peak memory of API and workers, MiB"
for batch in $(seq "$batches"); do
    write_lines "$batch"
    begun=$(seconds)
    run_lines & running=$!
    if [ "$batch" = "$batches" ]; then sleep 3; echo "lists beside batch $batch:"; lists 20; fi
    wait "$running"
    echo "$batch: $(python3 -c "print(round($lines / ($(seconds) - $begun)))"); $(memory)"
done
echo "lists when idle:"; lists 5
total=$((batches * lines))
echo "bytes a turn: $(sql "SELECT sum(pg_total_relation_size(oid)) / $total FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace" turnfold), of them:"
sql "SELECT '    ' || relname, pg_total_relation_size(oid) / $total FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC LIMIT 6" turnfold
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
