#!/bin/bash
# In LangGraph, a node that runs after an interrupt sees other values than the same node in one go.
#
# Seen with langgraph 1.2.24 and langgraph-checkpoint 4.3.2, with InMemorySaver and its default serializer. The first node sets a value, the
# second one looks at it, without and with a stop between the two:
#   tuple: (1, 2), after the stop [1, 2]
#   deque: deque([1, 2], maxlen=2), after the stop deque([1, 2])
#   noon of the next day in Berlin: 2026-10-25T12:00:00+01:00, after the stop 2026-10-25T12:00:00+02:00
#   dataclass: Order(item='tea', total=0), after the stop {'item': 'tea', 'total': 0}
#   pydantic: Note(text='hm!', by='ann'), after the stop Note(text='hm!!', by='nobody')
# State is only decoded when a run is taken up again, so that a graph that was tested without interrupts may fail, or count in another way,
# once a person approves a step. A zone becomes the offset that it had at that moment; the dataclass has a field with `init=False`; a
# validator of pydantic runs again on its own result, and a field with `exclude=True` gets its default. The dataclass logs a warning.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check langgraph==1.2.24 langgraph-checkpoint==4.3.2
cat > run.py <<'PY'
import logging
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypedDict
from zoneinfo import ZoneInfo
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from pydantic import BaseModel, Field, field_validator

logging.disable()


@dataclass
class Order:
    item: str
    total: int = field(init=False, default=0)


class Note(BaseModel):
    text: str
    by: str = Field(default="nobody", exclude=True)

    @field_validator("text")
    def mark(cls, text):
        return text + "!"


class State(TypedDict):
    value: Any
    seen: str


def look(state):
    value = state["value"]
    return {"seen": (value + timedelta(days=1)).isoformat() if isinstance(value, datetime) else repr(value)}


def run(value, stops):
    graph = StateGraph(State).add_node("first", lambda _: {"value": value}).add_node("second", look)
    graph.add_edge(START, "first").add_edge("first", "second")
    graph = graph.compile(checkpointer=InMemorySaver(), interrupt_before=stops)
    thread = {"configurable": {"thread_id": "t"}}
    state = graph.invoke({}, thread)
    return (graph.invoke(None, thread) if stops else state)["seen"]


for name, value in {
    "tuple": (1, 2),
    "deque": deque([1, 2], maxlen=2),
    "noon of the next day in Berlin": datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Berlin")),
    "dataclass": Order("tea"),
    "pydantic": Note(text="hm", by="ann"),
}.items():
    print(f"{name}: {run(value, [])}, after the stop {run(value, ['second'])}")
PY
seen=$(venv/bin/python run.py)
echo "$seen"
expected="tuple: (1, 2), after the stop [1, 2]
deque: deque([1, 2], maxlen=2), after the stop deque([1, 2])
noon of the next day in Berlin: 2026-10-25T12:00:00+01:00, after the stop 2026-10-25T12:00:00+02:00
dataclass: Order(item='tea', total=0), after the stop {'item': 'tea', 'total': 0}
pydantic: Note(text='hm!', by='ann'), after the stop Note(text='hm!!', by='nobody')"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
