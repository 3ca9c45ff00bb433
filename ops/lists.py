"""Asks an API for its lists, searches and plots in turn, for a number of seconds, and prints p50 and p95 of each in milliseconds.

Usage: lists.py URL SECONDS"""
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

url, until = sys.argv[1], time.monotonic() + float(sys.argv[2])


def get(path):
    with urllib.request.urlopen(url + path) as reply:
        return json.load(reply)


def turns(where):
    return "/v1/turns?where=" + urllib.parse.quote(where)


thread = get("/v1/threads?limit=1")["data"][0]["id"]
batch = get("/v1/batches?limit=1")["data"][0]["id"]
PATHS = [
    "/v1/turns",
    "/v1/turns?limit=1000",
    "/v1/threads",
    "/v1/batches",
    "/v1/stats?range=hour",
    "/v1/stats?range=week",
    "/v1/prompts",
    "/v1/inbox",
    f"/v1/batches/{batch}",
    f"/v1/threads/{thread}",
    f"/v1/threads/{thread}/events",
    "/v1/turns/causes",
    f"/v1/threads/{thread}/state",
    "/v1/search?q=order",
    "/v1/search?q=1-4711",
    "/v1/search?q=nowhere",
    "/v1/costs",
    turns("status = failed"),
    turns("text = '1-4711'"),
    turns("text = customer"),
    turns("custom_id = '1-4711'"),
    turns(f"batch = '{batch}'"),
    turns("usd > 1"),
    turns("took > 1h"),
    turns("tool = nothing"),
    turns("worker = nothing"),
]

taken, refused = {path: [] for path in PATHS}, {}
while time.monotonic() < until:
    for path in PATHS:
        begun = time.monotonic()
        try:
            get(path)
        except urllib.error.HTTPError as error:
            refused[path] = f"{error.code} {json.load(error).get('detail', '')}"
        taken[path].append((time.monotonic() - begun) * 1000)
    time.sleep(0.2)
for path, values in taken.items():
    first, values = values[0], sorted(values)
    at = lambda share: values[min(len(values) - 1, int(len(values) * share))]
    note = f"; {refused[path]}" if path in refused else ""
    print(f"    {urllib.parse.unquote(path)}: first {first:.0f} ms, p50 {at(0.5):.0f}, p95 {at(0.95):.0f} of {len(values)}{note}")
