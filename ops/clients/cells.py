"""The cells of a row of the table. A client's file calls `row` with a function, or a reason, for each of them."""

import asyncio
import inspect
import json
import os
import signal
import traceback

BASE = os.environ["CLIENTS_URL"] + "/v1"
KEY = "any"
MODEL = "gpt-4o-mini"
PLAIN = "Greet me."
RAIN = "How much rain fell in Oslo?"
TYPED = "Which city is the capital of Norway?"
ASK = ["turnfold/probe", "ask Which colour? | red | green", "green"]
BOOK = ["turnfold/action_plan", "Book a table in Oslo.", "yes"]
SECONDS = 90

# Clients that take no address read it here.
os.environ.update(OPENAI_BASE_URL=BASE, OPENAI_API_BASE=BASE, OPENAI_API_KEY=KEY)

# Clients keep connections, which belong to one loop.
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)


def weather(city: str) -> str:
    """Returns the rain that fell in a city.

    Args:
        city: The name of the city.
    """
    return f"4711 mm in {city}"


def joined(pieces):
    pieces = [piece for piece in pieces if piece]
    assert len(pieces) > 1, f"the answer came in one piece: {pieces}"
    return "".join(pieces)


EXPECTED = {"plain": "Ahoy", "stream": "Ahoy", "tools": "4711", "typed": "Oslo", "memory": 'answered "green"', "approval": "table 4711"}


def row(name, **cells):
    for cell, expected in EXPECTED.items():
        ask = cells.get(cell)
        if ask is None or isinstance(ask, str):
            says, seen = ("-", ask or "") if cell in cells else ("-", "")
        else:
            says, seen = outcome(ask, expected)
        print(json.dumps({"row": name, "cell": cell, "says": says, "seen": seen}), flush=True)


def outcome(ask, expected):
    def late(*_):
        raise TimeoutError(f"no answer in {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        answer = loop.run_until_complete(ask()) if inspect.iscoroutinefunction(ask) else ask()
        answer = answer.city if hasattr(answer, "city") else answer
        if expected in str(answer):
            return "yes", ""
        return "no", f"the answer is {str(answer)[:300]!r}"
    except BaseException as error:
        if os.environ.get("CLIENTS_TRACE"):
            traceback.print_exc()
        return "no", f"{type(error).__name__}: {last_line(error)}"
    finally:
        signal.alarm(0)


def last_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1][:400] if lines else ""
