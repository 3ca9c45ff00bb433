#!/bin/bash
# sarif-tools keeps one character of a message that starts with the id of its rule, and so makes one issue of several.
#
# Seen with sarif-tools 3.0.5; on the left the rule and the message of a SARIF result, then the description and the start of the fingerprint
# in Code Climate's format:
#   cost, "Costs rose by 30 %": "Costs rose by 30 %" 8cbe
#   cost, "cost rose by 30 %": "r" f6e4
#   cost, "cost: 30 % more": "" 3d4d
#   text, "text: Yes became No": "" 3d4d
# The rule is cut off, and of the rest only the second character is kept, if it is no space. Code Climate recognises an issue by its
# fingerprint, which is made of the description and the place, not of the rule: the last two are one issue for it. `sarif csv` cuts too.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check sarif-tools==3.0.5
cat > show.py <<'PY'
import json
import subprocess
import sys

for text in ["Costs rose by 30 %", "cost rose by 30 %", "cost: 30 % more", "text: Yes became No"]:
    rule = text.lower()[:4]
    results = [{"ruleId": rule, "level": "error", "message": {"text": text}}]
    with open("report.sarif", "w") as file:
        json.dump({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "t"}}, "results": results}]}, file)
    command = [sys.executable, "-m", "sarif", "codeclimate", "report.sarif", "--output", "report.json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open("report.json") as file:
        [issue] = json.load(file)
    print(f"{rule}, {json.dumps(text)}: {json.dumps(issue['description'])} {issue['fingerprint'][:4]}")
PY
seen=$(venv/bin/python show.py)
echo "$seen"
expected='cost, "Costs rose by 30 %": "Costs rose by 30 %" 8cbe
cost, "cost rose by 30 %": "r" f6e4
cost, "cost: 30 % more": "" 3d4d
text, "text: Yes became No": "" 3d4d'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
