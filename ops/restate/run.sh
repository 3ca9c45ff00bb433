#!/bin/bash
# Measures what a client sees of turnfold and of Restate with its Rust SDK, by the same clients in the same rounds.
#
#   [BENCH_BIN=target/dist/bench] ops/restate/run.sh [FIGURE …] [OPTION OF bench …]
#
# Default: client.1 client.64 client.512 --short, which is three rounds. 1, 64 and 512 clients each submit a turn or an invocation of ten
# durable steps over HTTP, wait for its end, and submit the next. In each round a lap of turnfold (an API, two workers, PostgreSQL,
# Redis) is followed by one of Restate (the server, and the service in service/). It prints, for each lap, the steps per second, the CPU
# seconds per 1,000 steps without the clients, and the ratio.
#
# Restate keeps its defaults: 24 partitions, a replicated log with one replica that is forced to the disk (fsync) at each batch, journals
# kept for a day. Only its ports, its folder, the level of its log (`warn`, as turnfold's) and its telemetry (off) are set. The handler is
# that of an unkeyed service, Restate's cheapest kind, and its steps return less than turnfold stores. Both are built with LTO and write
# into TMPDIR, which must be a disk.
#
# Needs npm, curl, Python 3 and the network for Restate's package and SDK. When it starts, Restate asks api.github.com for its latest
# release, which no setting turns off; all other traffic stays on 127.0.0.1. Not a part of ./check.
set -euo pipefail
# Each process that is started here leads a group of its own, so that those that it starts end with it.
set -m

SERVER=1.7.12

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
work=$(mktemp -d)
started=()
finish() {
  local status=$?
  for pid in "${started[@]}"; do kill -KILL -- "-$pid" 2> /dev/null || true; done
  wait 2> /dev/null
  [ "$status" -eq 0 ] || tail -n 20 "$work"/*.log >&2 || true
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

# Waits until a command succeeds, at most a minute.
within_a_minute() {
  local what=$1
  shift
  for _ in {1..300}; do
    ! "$@" > /dev/null 2>&1 || return 0
    sleep 0.2
  done
  echo "$what did not answer within a minute" >&2
  exit 1
}

# curl without a proxy. It fails if the status is an error.
ask() {
  curl --silent --show-error --fail --noproxy '*' "$@"
}

npm install --prefix "$work/npm" --ignore-scripts --no-audit --no-fund --silent "@restatedev/restate-server@$SERVER"
server=$(echo "$work"/npm/node_modules/@restatedev/restate-server-*/bin/restate-server)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
cargo build --locked --release --manifest-path "$here/service/Cargo.toml" --target-dir "$CARGO_TARGET_DIR/restate"
if [ -z "${BENCH_BIN:-}" ]; then
  cargo build --locked --profile dist --manifest-path "$root/Cargo.toml" -p bench
  BENCH_BIN=$CARGO_TARGET_DIR/dist/bench
fi

setpriv --pdeathsig KILL "$CARGO_TARGET_DIR/restate/release/ten-steps" > "$work/port" 2> "$work/service.log" &
service=$!
started+=("$service")
within_a_minute "the service" test -s "$work/port"

read -r ingress admin fabric < <(python3 -c '
import socket
free = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*[each.getsockname()[1] for each in free])')
# Settings and proxies of the caller's environment are left out.
env -i DO_NOT_TRACK=1 RESTATE_DISABLE_TELEMETRY=true \
  RESTATE_INGRESS__BIND_PORT="$ingress" RESTATE_ADMIN__BIND_PORT="$admin" \
  setpriv --pdeathsig KILL "$server" --base-dir "$work/data" --listen-mode tcp --bind-ip 127.0.0.1 --bind-port "$fabric" \
  --no-logo --log-filter warn --log-disable-ansi-codes true > "$work/server.log" 2>&1 &
restate=$!
started+=("$restate")
within_a_minute "Restate" ask "http://127.0.0.1:$admin/health"
within_a_minute "Restate's registration of the service" ask "http://127.0.0.1:$admin/deployments" \
  --json "{\"uri\": \"http://127.0.0.1:$(cat "$work/port")\"}"
url=http://127.0.0.1:$ingress/Turn/run
within_a_minute "Restate's ingress" ask "$url" --json 10

[ $# -gt 0 ] || set -- client.1 client.64 client.512 --short
"$BENCH_BIN" "$@" --peer "$url" --peer-processes "$restate,$service" &
started+=($!)
wait $!
