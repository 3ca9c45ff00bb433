#!/bin/bash
# In taskiq `max_retries=1` retries nothing: it counts the runs, where dramatiq and huey count what comes after the first run.
#
# Seen with taskiq 0.13.0, beside dramatiq 2.2.1 and huey 3.5.4, each in one process; a task always fails. On the left the value of taskiq's
# and dramatiq's `max_retries` and huey's `retries`, then how often the task ran:
#   0: taskiq 1, taskiq smart 1, dramatiq 1, huey 1
#   1: taskiq 1, taskiq smart 1, dramatiq 2, huey 2
#   3: taskiq 3, taskiq smart 3, dramatiq 4, huey 4
# 0 and 1 mean the same, and no warning says so. Both middlewares of taskiq, `SimpleRetryMiddleware` and `SmartRetryMiddleware`, count like
# this. A task that moves from one queue to the other with its settings loses its only retry, or its last.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check taskiq==0.13.0 dramatiq==2.2.1 huey==3.5.4
cat > count.py <<'PY'
import asyncio
import logging
import dramatiq
from dramatiq.brokers.stub import StubBroker
from huey import MemoryHuey
from taskiq import InMemoryBroker, SimpleRetryMiddleware, SmartRetryMiddleware

logging.disable(logging.CRITICAL)


def by_taskiq(retries, middleware):
    runs = []

    async def run():
        broker = InMemoryBroker(await_inplace=True).with_middlewares(middleware)

        @broker.task(retry_on_error=True, max_retries=retries)
        async def fail():
            runs.append(1)
            raise ValueError

        await broker.startup()
        await fail.kiq()
        await broker.wait_all()
        await broker.shutdown()

    asyncio.run(run())
    return len(runs)


def by_dramatiq(retries):
    runs = []
    broker = StubBroker()

    @dramatiq.actor(broker=broker, max_retries=retries, min_backoff=1, max_backoff=1)
    def fail():
        runs.append(1)
        raise ValueError

    worker = dramatiq.Worker(broker, worker_timeout=50)
    worker.start()
    fail.send()
    broker.join("default", fail_fast=False)
    worker.join()
    worker.stop()
    return len(runs)


def by_huey(retries):
    runs = []
    queue = MemoryHuey()

    @queue.task(retries=retries)
    def fail():
        runs.append(1)
        raise ValueError

    fail()
    while task := queue.dequeue():
        queue.execute(task)
    return len(runs)


for retries in [0, 1, 3]:
    simple = by_taskiq(retries, SimpleRetryMiddleware())
    smart = by_taskiq(retries, SmartRetryMiddleware(default_delay=0, use_jitter=False))
    print(f"{retries}: taskiq {simple}, taskiq smart {smart}, dramatiq {by_dramatiq(retries)}, huey {by_huey(retries)}")
PY
seen=$(venv/bin/python count.py)
echo "$seen"
expected='0: taskiq 1, taskiq smart 1, dramatiq 1, huey 1
1: taskiq 1, taskiq smart 1, dramatiq 2, huey 2
3: taskiq 3, taskiq smart 3, dramatiq 4, huey 4'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
