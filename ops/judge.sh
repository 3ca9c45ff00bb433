#!/usr/bin/env bash
# Runs ten prompts that make answers worse and ten that make no difference over recorded threads, has a judge that errs compare the
# answers, and prints which prompts the report finds, and the rate of false alarms.
#
# Usage: ops/judge.sh BINARY [THREADS] [ERRORS]      needs Python 3
#
# Default: 60 threads for each prompt; 10 % of the verdicts are drawn by lot. A prompt is found if the report says that its answers are
# worse, beyond chance. A limit of --fail-if is printed beside it.
set -euo pipefail

binary=$(realpath "$1") threads=${2:-60} errors=${3:-10}
here=$(dirname "$(realpath "$0")")
folder=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; rm -rf -- "$folder"' EXIT
cd "$folder"

mkfifo port
python3 "$here/judged_model.py" "$errors" > port & started+=($!)
read -r port < port
cat > turnfold.toml <<T
[worker]
slots = 8
[providers.openai]
base_url = 'http://127.0.0.1:$port/v1'
api_key = 'env:MODEL_KEY'
stream = false
prices = { "gpt-4o" = { input = 2.5, output = 10.0 } }
T
export MODEL_KEY=none
echo 'A good answer says what was booked, for when, and with whom.' > rubric.md
"$binary" migrate > /dev/null
python3 - "$here/../fixtures/planner/confidence_at_the_threshold.jsonl" "$threads" <<'P'
import sys
log = open(sys.argv[1]).read().replace('"content":"Booked."', '"content":"Lunch with Ann is booked for Friday at 12."')
for nth in range(int(sys.argv[2])):
    open(f"log-{nth}.jsonl", "w").write(log.replace("Book lunch", f"Book lunch {nth}").replace("book lunch", f"book lunch {nth}"))
P
for log in log-*.jsonl; do "$binary" thread import "$log" > /dev/null; done

# The share of answers that a prompt makes worse, in percent. The scripted model reads it from the prompt.
for worse in 100 90 80 70 60 50 40 30 20 10 0 0 0 0 0 0 0 0 0 0; do
    nth=$((${nth:-0} + 1))
    "$binary" whatif run --yes --to "run-$nth" --prompt "planner/respond=Variant $nth, $worse percent. {prompt}" \
        --judge rubric.md --judge-model openai/gpt-4o --fail-if 'judged_worse > 5%' -o json > "$nth.json" 2> "$nth.log" \
        || [ $? = 1 ] || { tail -5 "$nth.log"; exit 1; }
done
python3 - <<'P'
import json
print("prompt  made worse  better  worse  tie  inconsistent  worse at 95 %  found  --fail-if 'judged_worse > 5%'")
found = {True: 0, False: 0}
failed = {True: 0, False: 0}
for nth in range(1, 21):
    judged = json.load(open(f"{nth}.json"))["total"]["judged"]
    planted = 100 - 10 * (nth - 1) if nth <= 10 else 0
    low, high = judged["worse_percent_95"]
    is_found = judged.get("tendency") == "worse"
    is_failed = "FAILED" in open(f"{nth}.log").read()
    found[0 < planted] += is_found
    failed[0 < planted] += is_failed
    print(f"{nth:6}  {planted:8} %  {judged['better']:6}  {judged['worse']:5}  {judged['tie']:3}  {judged['inconsistent']:12}  "
          f"{low:4.1f} to {high:5.1f}  {'yes' if is_found else 'no':5}  {'fails' if is_failed else 'passes'}")
print(f"worse, beyond chance: {found[True]} of 10 regressions found, {found[False]} of 10 false alarms")
print(f"--fail-if 'judged_worse > 5%': {failed[True]} of 10 regressions found, {failed[False]} of 10 false alarms")
P
