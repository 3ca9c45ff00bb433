#!/bin/bash
# Temporal's Python client decodes 2.5 as 2 where the type is `int | float`, and keeps 2.5 where it is `float | int`.
#
# Seen with temporalio 1.35.0 and its default data converter; on the left the value, then the type of the parameter, then what arrives:
#   2.5 as int | float: 2
#   2.5 as float | int: 2.5
#   2.5 as int | None: 2
#   '2.5' as int: refused
#   {'price': 2.5} as Order: Order(price=2)
#   'ann' as list[str]: ['a', 'n', 'n']
# The payload holds 2.5. The types of a union are tried from left to right, and `int` takes every number, by cutting its fraction off. So
# arguments, results and signals may lose their cents without an error, while the same number as a string is refused. In Python itself and in
# pydantic the order within such a union does not matter for 2.5.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check temporalio==1.35.0
cat > decode.py <<'PY'
import asyncio
from dataclasses import dataclass
from temporalio.converter import DataConverter


@dataclass
class Order:
    price: int | float


async def show(value, kind, name):
    payloads = await DataConverter.default.encode([value])
    try:
        arrived = repr((await DataConverter.default.decode(payloads, [kind]))[0])
    except TypeError:
        arrived = "refused"
    print(f"{value!r} as {name}: {arrived}")


async def main():
    await show(2.5, int | float, "int | float")
    await show(2.5, float | int, "float | int")
    await show(2.5, int | None, "int | None")
    await show("2.5", int, "int")
    await show({"price": 2.5}, Order, "Order")
    await show("ann", list[str], "list[str]")


asyncio.run(main())
PY
seen=$(venv/bin/python decode.py)
echo "$seen"
expected="2.5 as int | float: 2
2.5 as float | int: 2.5
2.5 as int | None: 2
'2.5' as int: refused
{'price': 2.5} as Order: Order(price=2)
'ann' as list[str]: ['a', 'n', 'n']"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
