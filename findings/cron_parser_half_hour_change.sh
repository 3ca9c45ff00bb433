#!/bin/bash
# cron-parser loses runs where the clocks change by half an hour: in the hour that is cut, and in the half hour that is repeated.
#
# Seen with cron-parser 5.10.6, beside croner 11.0.1, in Australia/Lord_Howe, where 02:00 became 02:30 on 2024-10-06, and 02:00 became
# 01:30 on 2024-04-07. These are the runs of `45 * * * *`, `15 2 * * *` and `*/15 * * * *` after the times on the left:
#   45 * * * * after 2024-10-06 01:00, cron-parser: 06 01:45, 06 03:45, 06 04:45
#   45 * * * * after 2024-10-06 01:00, croner: 06 01:45, 06 02:45, 06 03:45
#   15 2 * * * after 2024-10-05 12:00, cron-parser: 07 02:15, 08 02:15, 09 02:15
#   15 2 * * * after 2024-10-05 12:00, croner: 06 02:30, 07 02:15, 08 02:15
#   */15 * * * * after 2024-04-07 01:40, cron-parser: 07 01:45, 07 02:00, 07 02:15
#   */15 * * * * after 2024-04-07 01:40, croner: 07 01:45, 07 01:30, 07 01:45
# 02:45 existed on that day, and yet it is left out. A daily job at 02:15 does not run on it at all; in Berlin, where the whole hour is cut,
# the same library moves it to 03:15. In April a job for every quarter of an hour pauses for 45 minutes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund cron-parser@5.10.6 croner@11.0.1 > /dev/null
cat > runs.mjs <<'JS'
import { CronExpressionParser } from "cron-parser";
import { Cron } from "croner";

const tz = "Australia/Lord_Howe";
const form = new Intl.DateTimeFormat("sv", { timeZone: tz, day: "2-digit", hour: "2-digit", minute: "2-digit" });
const ways = {
  "cron-parser": (expression, currentDate) =>
    CronExpressionParser.parse(expression, { currentDate, tz }).take(3).map((run) => run.toDate()),
  croner: (expression, after) => new Cron(expression, { timezone: tz }).nextRuns(3, after),
};
for (const [expression, local, utc] of [
  ["45 * * * *", "2024-10-06 01:00", "2024-10-05T14:30Z"],
  ["15 2 * * *", "2024-10-05 12:00", "2024-10-05T01:30Z"],
  ["*/15 * * * *", "2024-04-07 01:40", "2024-04-06T14:40Z"],
]) {
  for (const [name, runs] of Object.entries(ways)) {
    const times = runs(expression, new Date(utc)).map((run) => form.format(run));
    console.log(`${expression} after ${local}, ${name}: ${times.join(", ")}`);
  }
}
JS
seen=$(node runs.mjs)
echo "$seen"
expected='45 * * * * after 2024-10-06 01:00, cron-parser: 06 01:45, 06 03:45, 06 04:45
45 * * * * after 2024-10-06 01:00, croner: 06 01:45, 06 02:45, 06 03:45
15 2 * * * after 2024-10-05 12:00, cron-parser: 07 02:15, 08 02:15, 09 02:15
15 2 * * * after 2024-10-05 12:00, croner: 06 02:30, 07 02:15, 08 02:15
*/15 * * * * after 2024-04-07 01:40, cron-parser: 07 01:45, 07 02:00, 07 02:15
*/15 * * * * after 2024-04-07 01:40, croner: 07 01:45, 07 01:30, 07 01:45'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
