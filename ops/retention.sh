#!/usr/bin/env bash
# Fills a database with turns and prunes it, round after round, and prints what happens to the space; then prunes beside running turns.
#
# Usage: ops/retention.sh BINARY [TURNS] [ROUNDS]      needs PostgreSQL 15 or later, Redis, Python 3 and curl
set -euo pipefail

binary=$(realpath "$1") turns=${2:-20000} rounds=${3:-10}
# shellcheck source=ops/installation.sh
source "$(dirname "$(realpath "$0")")/installation.sh"
tf api --listen "127.0.0.1:$api_port" > api.log 2>&1 & started+=($!)
tf worker > worker.log 2>&1 & started+=($!)
until curl -sf "$url/readyz" >/dev/null; do sleep 0.2; done

# Runs a batch of new turns. Its name makes its lines new.
fill() {
    python3 - "$1" "$turns" > lines.jsonl <<'P'
import json, sys
for nth in range(int(sys.argv[2])):
    body = {"strategy": "probe", "input": "call 1; call 1; call 1; echo hi"}
    print(json.dumps({"custom_id": f"{sys.argv[1]}-{nth}", "method": "POST", "url": "/v1/turns", "body": body}))
P
    rm -f results.jsonl
    tf batch run lines.jsonl --out results.jsonl --url "$url" >/dev/null 2>&1
}
size() { sql "SELECT sum(pg_table_size(oid)) / 1048576, sum(pg_indexes_size(oid)) / 1048576 FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace" turnfold; }
per_second() { python3 -c "print(round($1 / ($3 - $2)))"; }

echo "round: turns/s, MiB of tables and indexes when full, pruned/s, MiB when pruned and vacuumed"
for round in $(seq "$rounds"); do
    begun=$(seconds); fill "$round"; filled=$(seconds); full=$(size)
    tf store prune --older-than 0s --yes >/dev/null 2>&1; pruned=$(seconds)
    # As autovacuum does within minutes.
    sql "VACUUM" turnfold >/dev/null
    echo "$round: $(per_second "$turns" "$begun" "$filled") turns/s, $full, $(per_second "$turns" "$filled" "$pruned") pruned/s, $(size)"
done
fill old
begun=$(seconds); fill alone; alone=$(per_second "$turns" "$begun" "$(seconds)")
begun=$(seconds)
fill beside & running=$!
sleep 1
pruning=$(seconds)
old=$((2 * turns))
tf store prune --older-than 2s --yes > prune.log 2>&1; ended=$(seconds)
wait "$running"
echo "alone $alone turns/s; beside a prune $(per_second "$turns" "$begun" "$(seconds)") turns/s, pruned $(per_second "$old" "$pruning" "$ended")/s"
