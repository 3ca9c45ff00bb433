#!/bin/bash
# The Python package uuid7 makes ids of version 7 that all others read as of about the year 2200, and that sort behind all of theirs.
#
# Seen with uuid7 0.1.0, uuid6 2025.0.1 and uuid-utils 0.19.0 for Python, and uuidv7 1.2.1 for JavaScript. The first makes an id as of
# 2026-01-01, the others make one as of now. This is what uuid-utils reads in each, and the place of each by sorting:
#   uuid7 of uuid7: version 7, 2199-05-19, place 4
#   uuid7 of uuid6: version 7, today, place 1
#   uuid7 of uuid-utils: version 7, today, place 2
#   uuidv7 of JavaScript: version 7, today, place 3
# It follows a draft of 2021, with 36 bits of seconds where RFC 9562 has 48 bits of milliseconds; version and variant are the same in both,
# and so no check of them tells the two apart. In a log that is ordered by id, or a table that is divided by an id's time, its rows stay the
# newest, and a rule that deletes what is older than a month keeps them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund uuidv7@1.2.1 > /dev/null
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check uuid7==0.1.0 uuid6==2025.0.1 uuid-utils==0.19.0
cat > make.py <<'PY'
import subprocess
import time
from datetime import datetime, timezone
import uuid6
import uuid_extensions
import uuid_utils

NEW_YEAR = 1_767_225_600


def by_javascript():
    code = 'import { uuidv7 } from "uuidv7"; console.log(uuidv7());'
    return subprocess.run(["node", "--input-type=module", "-e", code], text=True, capture_output=True, check=True).stdout.strip()


ids = {}
for name, make in {
    "uuid7 of uuid7": lambda: uuid_extensions.uuid7(ns=NEW_YEAR * 10**9),
    "uuid7 of uuid6": uuid6.uuid7,
    "uuid7 of uuid-utils": uuid_utils.uuid7,
    "uuidv7 of JavaScript": by_javascript,
}.items():
    ids[name] = str(make())
    time.sleep(0.01)
for name, text in ids.items():
    read = uuid_utils.UUID(text)
    seconds = read.timestamp / 1000
    when = "today" if abs(seconds - time.time()) < 60 else f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d}"
    print(f"{name}: version {read.version}, {when}, place {sorted(ids.values()).index(text) + 1}")
PY
seen=$(venv/bin/python make.py)
echo "$seen"
expected='uuid7 of uuid7: version 7, 2199-05-19, place 4
uuid7 of uuid6: version 7, today, place 1
uuid7 of uuid-utils: version 7, today, place 2
uuidv7 of JavaScript: version 7, today, place 3'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
