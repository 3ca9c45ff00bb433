#!/usr/bin/env bash
# PostgreSQL and Redis in a temporary folder, and turnfold's settings for them. Sourced by scripts that measure, with `binary` set; the
# current folder becomes the temporary one. Sets `url`, where an API is to listen; processes in `started` are stopped at the end.
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
folder=$(mktemp -d)
chmod 755 "$folder"
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
install -d -m 700 "$folder/data"
if [ "$(id -u)" = 0 ]; then chown postgres "$folder" "$folder/data"; fi
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
database_port=$(free_port) queue_port=$(free_port) api_port=$(free_port)
started=()
stop() {
    kill "${started[@]}" 2>/dev/null || true
    as_postgres "$bin/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true
    rm -rf -- "$folder"
}
trap stop EXIT
cd "$folder"
as_postgres "$bin/initdb" -D "$folder/data" -U postgres -A trust >/dev/null
as_postgres "$bin/pg_ctl" -D "$folder/data" -o "-p $database_port -k $folder" -l "$folder/postgres.log" -w start >/dev/null
sql() { "$bin/psql" -h 127.0.0.1 -p "$database_port" -U postgres -AtX -F ' ' -c "$1" "${2:-postgres}"; }
sql "CREATE DATABASE turnfold" >/dev/null
redis-server --port "$queue_port" --save "" --dir /tmp >/dev/null & started+=($!)
cat > turnfold.toml <<T
[store]
url = "postgres://postgres@127.0.0.1:$database_port/turnfold"
[queue]
url = "redis://127.0.0.1:$queue_port"
[log]
filter = "error"
T
tf() { "$binary" --config "$folder/turnfold.toml" "$@"; }
tf migrate >/dev/null
url=http://127.0.0.1:$api_port

seconds() { date +%s.%N; }
# Prints the bytes a turn, of all tables and of the largest.
bytes() {
    echo "bytes a turn: $(sql "SELECT sum(pg_total_relation_size(oid)) / $total FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace" turnfold), of them:"
    sql "SELECT '    ' || relname, pg_total_relation_size(oid) / $total FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC LIMIT 6" turnfold
}
