#!/bin/bash
# XState starts an invoked promise again when it restores a machine, but no timer, and it overlooks a condition that holds by then.
#
# Seen with xstate 5.33.3. A machine is saved in its first state and stopped, and then the condition comes true. For each way to wait, the
# state after 300 ms of a machine that is started anew, of one that is restored, and of a restored one that got an event that none knows:
#   timer of 50 ms: anew done, restored waiting, with an event waiting
#   promise of 50 ms: anew done, restored done, with an event done
#   condition: anew done, restored waiting, with an event done
# `getPersistedSnapshot` keeps the name of the state, not that a timer runs, and `after` starts one only where a state is entered. So a
# deadline, or the pause before the next try, is lost with the process, and the machine stays active for ever. `always` is looked at only
# after an event; one that means nothing is enough.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund xstate@5.33.3 > /dev/null
cat > restore.mjs <<'JS'
import { setTimeout as pause } from "node:timers/promises";
import { createActor, createMachine, fromPromise } from "xstate";

let holds;
const promise = fromPromise(() => pause(50));
for (const [name, waiting] of Object.entries({
  "timer of 50 ms": { after: { 50: "done" } },
  "promise of 50 ms": { invoke: { src: promise, onDone: "done" } },
  condition: { always: { guard: () => holds, target: "done" } },
})) {
  const machine = createMachine({ initial: "waiting", states: { waiting, done: {} } });
  const state = async (options, event) => {
    const actor = createActor(machine, options).start();
    if (event) actor.send(event);
    await pause(300);
    return actor.getSnapshot().value;
  };
  holds = false;
  const first = createActor(machine).start();
  const snapshot = JSON.parse(JSON.stringify(first.getPersistedSnapshot()));
  first.stop();
  holds = true;
  const states = [await state({}), await state({ snapshot }), await state({ snapshot }, { type: "unknown" })];
  console.log(`${name}: anew ${states[0]}, restored ${states[1]}, with an event ${states[2]}`);
}
JS
seen=$(node restore.mjs)
echo "$seen"
expected='timer of 50 ms: anew done, restored waiting, with an event waiting
promise of 50 ms: anew done, restored done, with an event done
condition: anew done, restored waiting, with an event done'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
