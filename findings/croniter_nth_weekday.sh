#!/bin/bash
# In croniter, `#` behind one day of the week switches off the other days of an expression, or all of them.
#
# Seen with croniter 7.0.0, beside cronsim 2.8, the first four runs after 2026-01-01, a Thursday:
#   0 0 13 * 5: Fri 02, Fri 09, Tue 13, Fri 16 (cronsim: Fri 02, Fri 09, Tue 13, Fri 16)
#   0 0 13 * 5#2: Fri 09, Fri 13, Fri 13, Fri 10 (cronsim: Fri 09, Tue 13, Fri 13, Fri 13)
#   0 0 13 * 5#1: never (cronsim: Fri 02, Tue 13, Fri 06, Fri 13)
#   0 0 * * 1,1#2: Mon 12, Mon 09, Mon 09, Mon 13 (cronsim: Mon 05, Mon 12, Mon 19, Mon 26)
#   0 0 * * 1,2#2: refused (cronsim: Mon 05, Mon 12, Tue 13, Mon 19)
# The 13th is no longer a day of its own: it is lost, and with `5#1` the first Friday is lost too, although `croniter.is_valid` accepts the
# expression. A list with a day and its `#` runs on fewer days than the day alone; with `#` behind another day it is refused.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check croniter==7.0.0 cronsim==2.8
cat > runs.py <<'PY'
from datetime import datetime
from croniter import croniter, CroniterBadDateError
from cronsim import CronSim

START = datetime(2026, 1, 1)


def by_croniter(expression):
    if not croniter.is_valid(expression):
        return "refused"
    runs = croniter(expression, START)
    try:
        return ", ".join(f"{runs.get_next(datetime):%a %d}" for _ in range(4))
    except CroniterBadDateError:
        return "never"


def by_cronsim(expression):
    runs = CronSim(expression, START)
    return ", ".join(f"{next(runs):%a %d}" for _ in range(4))


for expression in ["0 0 13 * 5", "0 0 13 * 5#2", "0 0 13 * 5#1", "0 0 * * 1,1#2", "0 0 * * 1,2#2"]:
    print(f"{expression}: {by_croniter(expression)} (cronsim: {by_cronsim(expression)})")
PY
seen=$(venv/bin/python runs.py)
echo "$seen"
expected='0 0 13 * 5: Fri 02, Fri 09, Tue 13, Fri 16 (cronsim: Fri 02, Fri 09, Tue 13, Fri 16)
0 0 13 * 5#2: Fri 09, Fri 13, Fri 13, Fri 10 (cronsim: Fri 09, Tue 13, Fri 13, Fri 13)
0 0 13 * 5#1: never (cronsim: Fri 02, Tue 13, Fri 06, Fri 13)
0 0 * * 1,1#2: Mon 12, Mon 09, Mon 09, Mon 13 (cronsim: Mon 05, Mon 12, Mon 19, Mon 26)
0 0 * * 1,2#2: refused (cronsim: Mon 05, Mon 12, Tue 13, Mon 19)'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
