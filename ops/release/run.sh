#!/bin/bash
# Builds what a release consists of: a static binary for this machine's processor, as an archive, a wheel and an npm package, with a bill of
# materials and checksums.
#
#   ops/release/run.sh FOLDER
#
# Needs Python 3.11, npm, and musl-gcc (Debian's musl-tools), and the network for what is missing. Not a part of ./check.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?the folder for the release}"
out=$(realpath "$1")
cd "$here/../.."
if [ -n "$(ls -A "$out")" ]; then
  echo "$out is not empty" >&2
  exit 1
fi
command -v musl-gcc > /dev/null || { echo "musl-gcc is missing: apt-get install musl-tools" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

target=$(uname -m)-unknown-linux-musl
rustup target add "$target"
export "CC_${target//-/_}=musl-gcc"
cargo build --locked --profile dist --target "$target" --package turnfold --bin turnfold
binary=${CARGO_TARGET_DIR:-target}/$target/dist/turnfold
if ldd "$binary" 2> /dev/null; then
  echo "$binary needs the libraries above" >&2
  exit 1
fi

name=turnfold-$("$binary" --version | cut -d' ' -f2)-$target
mkdir "$work/$name"
cp "$binary" README.md LICENSE CHANGELOG.md "$work/$name"
# The same files give the same archive.
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -czf "$out/$name.tar.gz" "$name"
ops/sbom.py > "$out/$name.cdx.json"

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "$(grep -o 'hatchling==[0-9.]*' "$here/pypi/pyproject.toml")"
PYTHON=$work/venv/bin/python "$here/packages.sh" "$binary" "$out"

cd "$out"
sha256sum -- * > "$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
ls -l
