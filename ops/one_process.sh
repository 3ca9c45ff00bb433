#!/usr/bin/env bash
# A database of SQLite in a temporary folder, and turnfold's settings for it. Sourced by scripts that measure, with `binary` set; the current
# folder becomes the temporary one. Sets `url`, where the process is to listen; processes in `started` are stopped at the end.
folder=$(mktemp -d)
api_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
started=()
stop() {
    kill "${started[@]}" 2>/dev/null || true
    wait "${started[@]}" 2>/dev/null || true
    rm -rf -- "$folder"
}
trap stop EXIT
cd "$folder"
cat > turnfold.toml <<T
[store]
url = "sqlite:$folder/turnfold.db"
[log]
filter = "error"
T
tf() { "$binary" --config "$folder/turnfold.toml" "$@"; }
url=http://127.0.0.1:$api_port

seconds() { date +%s.%N; }
# Prints the bytes a turn of the whole database.
bytes() { echo "bytes a turn: $(($(stat -c %s turnfold.db) / total))"; }
