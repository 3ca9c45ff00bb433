#!/bin/bash
# LangGraph JS saves a remark in place of the whole checkpoint, if one value of the state is a bigint.
#
# Seen with @langchain/langgraph 1.7.3, @langchain/langgraph-checkpoint 1.2.2 and @langchain/core 1.4.0, with MemorySaver. The first of two
# nodes sets a total, 7 or 7n; on the left its type, then what a run returns, what it saves, and what a run returns that was taken up again
# before the second node:
#   number: returns hi 7; saves {"text":"hi","total":7,"seen":"hi 7"}; after a stop: hi 7
#   bigint: returns hi 7; saves [unable to serialize, circular reference is too complex to analyze]; after a stop: EmptyInputError
# A run that does not stop ends well, and nothing is raised while it saves. What JSON.stringify refuses is taken for a circular reference, so
# that the text, and the place where the run had stopped, are lost along with the bigint.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund @langchain/langgraph@1.7.3 @langchain/langgraph-checkpoint@1.2.2 @langchain/core@1.4.0 > /dev/null
cat > run.mjs <<'JS'
import { Annotation, MemorySaver, START, StateGraph } from "@langchain/langgraph";

const thread = { configurable: { thread_id: "t" } };

function build(total, interruptBefore) {
  const State = Annotation.Root({ text: Annotation(), total: Annotation(), seen: Annotation() });
  const checkpointer = new MemorySaver();
  const graph = new StateGraph(State)
    .addNode("first", () => ({ total }))
    .addNode("second", (state) => ({ seen: `${state.text} ${state.total}` }))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .compile({ checkpointer, interruptBefore });
  return { checkpointer, graph };
}

for (const total of [7, 7n]) {
  const { checkpointer, graph } = build(total, []);
  const { seen } = await graph.invoke({ text: "hi" }, thread);
  const { checkpoint } = await checkpointer.getTuple(thread);
  const saved = typeof checkpoint === "string" ? checkpoint : JSON.stringify({ ...checkpoint.channel_values, __pregel_tasks: undefined });
  const stopped = build(total, ["second"]).graph;
  await stopped.invoke({ text: "hi" }, thread);
  const after = await stopped.invoke(null, thread).then((state) => state.seen, (error) => error.name);
  console.log(`${typeof total}: returns ${seen}; saves ${saved}; after a stop: ${after}`);
}
JS
seen=$(node run.mjs)
echo "$seen"
expected='number: returns hi 7; saves {"text":"hi","total":7,"seen":"hi 7"}; after a stop: hi 7
bigint: returns hi 7; saves [unable to serialize, circular reference is too complex to analyze]; after a stop: EmptyInputError'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
