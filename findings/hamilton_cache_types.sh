#!/bin/bash
# Hamilton's cache gives a node the result of another input: 1 and "1" are one key for it, and so are a dict and the list of its parts.
#
# Seen with apache-hamilton 1.90.0. A node returns `repr` of its input; on the left the inputs of ten runs that share one cache:
#   1: 1
#   '1': 1
#   b'1': 1
#   True: True
#   'True': True
#   [1, 2]: [1, 2]
#   ('1', '2'): [1, 2]
#   {1: 2}: [1, 2]
#   []: []
#   {}: []
# Six of the ten answers belong to an input of an earlier run, and nothing is logged. The key is a hash of `str(value)` without its type;
# that of a container is a hash of its parts' hashes. An id that was a number in one file and a text in the next, or an empty object after
# an empty list, takes up a result that may have been saved months before: the cache is kept on disk.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check apache-hamilton==1.90.0
cat > nodes.py <<'PY'
def shown(value: object) -> str:
    return repr(value)
PY
cat > runs.py <<'PY'
from hamilton import driver
import nodes

runs = driver.Builder().with_modules(nodes).with_cache(path="cache").build()
for value in [1, "1", b"1", True, "True", [1, 2], ("1", "2"), {1: 2}, [], {}]:
    print(f"{value!r}: {runs.execute(['shown'], inputs={'value': value})['shown']}")
PY
seen=$(venv/bin/python runs.py)
echo "$seen"
expected="1: 1
'1': 1
b'1': 1
True: True
'True': True
[1, 2]: [1, 2]
('1', '2'): [1, 2]
{1: 2}: [1, 2]
[]: []
{}: []"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
