#!/bin/bash
# Replaces the API and the workers of one build by those of another, one after another, while load runs, on a PostgreSQL and a Redis of
# its own. Nothing may be lost or repeated, and the checks of the new build must find nothing.
#
#   ops/rolling_upgrade.sh [OLD [NEW]] [--drain] [--clients N]
#
# OLD and NEW are binaries, or commits, which are built. Default: HEAD, and the working tree. With --drain, all old workers end before
# the first new one starts. See docs/upgrading.md. Not a part of ./check.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints the path of the binary of a path, of a commit, or of the working tree if it is empty.
binary() {
  if [ -n "$1" ] && [ -f "$1" ]; then
    realpath "$1"
    return
  fi
  local tree=$root
  if [ -n "$1" ]; then
    tree=$work/tree
    git clone --quiet --shared "$root" "$tree" >&2
    git -C "$tree" checkout --quiet "$1" >&2
  fi
  (cd "$tree" && CARGO_TARGET_DIR="$root/target" cargo build --quiet -p turnfold --features milvus --bin turnfold >&2)
  cp "$root/target/debug/turnfold" "$work/turnfold-${1:-tree}"
  rm -rf "$work/tree"
  echo "$work/turnfold-${1:-tree}"
}

builds=()
while [ $# -gt 0 ] && [ "${1#--}" = "$1" ]; do
  builds+=("$1")
  shift
done
old=$(binary "${builds[0]:-HEAD}")
new=$(binary "${builds[1]:-}")
servers=${SERVERS_BIN:-$root/target/debug/servers}
[ -x "$servers" ] || (cd "$root" && cargo build --quiet -p test-servers --bin servers >&2)
python3 "$here/rolling_upgrade.py" "$old" "$new" "$servers" "$@"
