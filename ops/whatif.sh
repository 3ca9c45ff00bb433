#!/usr/bin/env bash
# Records many threads of the demo, asks what they would do with another threshold and another prompt, and counts the requests that this
# makes at an endpoint of its own, over kills.
#
# Usage: ops/whatif.sh BINARY [COPIES]      needs Python 3
#
# Default: 53 copies of the demo's turns of five strategies, about 10,000 threads.
set -euo pipefail

binary=$(realpath "$1") copies=${2:-53}
here=$(dirname "$(realpath "$0")")
folder=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; rm -rf -- "$folder"' EXIT
cd "$folder"

seconds() { date +%s.%N; }
since() { python3 -c "print(f'{$(seconds) - $1:.1f}')"; }

python3 - "$here/../fixtures/demo/turns.jsonl" "$copies" > turns.jsonl <<'P'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
first = [line for line in lines if line["body"].get("metadata", {}).get("first")]
five = ("planner", "planner_with_prompts", "action_plan", "research", "retriever")
rest = [line for line in lines if line["body"]["strategy"] in five and line not in first]
copies = ({**line, "custom_id": f"{line['custom_id']}-{nth}"} for nth in range(int(sys.argv[2])) for line in rest)
for line in [*first, *copies]:
    print(json.dumps(line))
P
mkfifo port
python3 "$here/scripted_model.py" "$here/../fixtures/demo/model.jsonl" requests.log > port & started+=($!)
read -r port < port
begun=$(seconds)
unset OPENAI_API_KEY
export OPENAI_BASE_URL=http://127.0.0.1:$port/v1 OPENAI_MODEL=demo
export TURNFOLD__PROVIDERS__ENDPOINT__BASE_URL=$OPENAI_BASE_URL TURNFOLD__PROVIDERS__ENDPOINT__STREAM=false
"$binary" demo --folder recorded --file turns.jsonl > demo.log 2>&1 || [ $? = 5 ] || { tail -20 demo.log; exit 1; }
asked() { wc -l < requests.log; }
echo "recorded $(wc -l < turns.jsonl) turns in $(since "$begun") s, with $(asked) requests"
: > requests.log
cat recorded/turnfold.toml - > turnfold.toml <<'T'

[providers.endpoint.prices]
demo = { input = 2.5, output = 10.0 }
T
tf() { "$binary" --config turnfold.toml "$@"; }

begun=$(seconds)
tf whatif --set planner.confidence=0.99 --set planner_with_prompts.confidence_threshold=0.99 --set retriever.score=0.99 --set research.loops=1 --set action_plan.steps_max=1 -o json > threshold.json 2> threshold.log || [ $? = 6 ] || { tail -5 threshold.log; exit 1; }
python3 - "$(since "$begun")" <<'P'
import json, sys
found = json.load(open("threshold.json"))
print(f"thresholds: {found['threads']} threads replayed in {sys.argv[1]} s, {found['changed']} would go differently, {found['undecided']} not decided")
P
[ ! -s requests.log ] || { echo "a replay asked a model"; exit 1; }

cat > assess.md <<'T'
{prompt}
Be strict.
T
before=$(sha256sum recorded/*.json)
run() { tf whatif run --prompt planner/assess=@assess.md --yes -o json > run.json 2> run.log; }
begun=$(seconds)
for nth in 1 2; do
    run & running=$!
    # Killed when there is something to lose.
    until [ "$(asked)" -gt $((nth * copies * 100)) ]; do
        kill -0 "$running" 2>/dev/null || { tail -5 run.log; echo "the run ended by itself before kill $nth"; exit 1; }
        sleep 0.2
    done
    # The shell around it ends after it: its files are free then.
    pkill -9 -P "$running" || true; wait "$running" 2>/dev/null || true
    echo "killed with $(asked) requests answered"
done
run || [ $? = 6 ] || { tail -5 run.log; exit 1; }
took=$(since "$begun")
[ "$before" = "$(sha256sum recorded/*.json)" ] || { echo "a server's data changed"; exit 1; }
python3 - "$took" <<'P'
import json, sys
run, asked = json.load(open("run.json")), [line for line in open("requests.log")]
quote, total = run["replay"]["quote"], run["total"]
print(f"one prompt: {run['replay']['threads']} threads replayed, {run['replay']['changed']} run from the first difference on in {sys.argv[1]} s with two kills")
print(f"requests: {len(asked)} at the endpoint, {total['model_requests']} in the logs of the run, {quote['model_calls']} in the quote")
print(f"dollars: {total['spent_usd']:.2f} spent, {quote['usd']:.2f} in the quote")
print(f"decided {total['decided']}, of them with the same outcome {total['outcome']['same']}; not decided {total['not_decided']}")
P
