#!/bin/bash
# Makes a wheel and an npm package that carry a binary for Linux.
#
#   PYTHON=venv/bin/python ops/release/packages.sh BINARY FOLDER
#
# PYTHON has hatchling (the version in pypi/pyproject.toml), and npm is in PATH. Neither needs the network.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:?the path of the binary}")
mkdir -p "${2:?the folder for the packages}"
out=$(realpath "$2")
python=$(command -v "${PYTHON:-python3}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$("$binary" --version | cut -d' ' -f2)
case $(uname -m) in
  x86_64) npm_cpu=x64 wheel_cpu=x86_64 ;;
  aarch64) npm_cpu=arm64 wheel_cpu=aarch64 ;;
  *) echo "no package for $(uname -m)" >&2; exit 1 ;;
esac
# A static binary runs on every Linux. Another runs where the C library is at least as new as here.
if ldd "$binary" > "$work/libraries" 2>&1; then
  platform=linux_$wheel_cpu
else
  platform=manylinux2014_$wheel_cpu.musllinux_1_1_$wheel_cpu
fi

for kind in pypi npm; do
  cp -r "$here/$kind" "$work/$kind"
  cp "$here/../../README.md" "$here/../../LICENSE" "$work/$kind"
  install -m 755 "$binary" "$work/$kind/turnfold"
done

cd "$work/pypi"
TURNFOLD_VERSION=$version TURNFOLD_PLATFORM=$platform "$python" -m hatchling build -t wheel -d "$out"

cd "$work/npm"
npm pkg set version="$version" "cpu[0]=$npm_cpu"
npm pack --pack-destination "$out"
