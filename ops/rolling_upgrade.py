"""Replaces the processes of one build by those of another while load runs: `rolling_upgrade.py OLD NEW SERVERS [--drain] [--seconds N]`.

Prints what was seen as JSON. The exit code is 1 if something was lost or repeated, or a check of the new build finds something.
"""

import argparse
import collections
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RETRIED_FOR = 120
CONFIG = """
[store]
url = "{store}"
[queue]
url = "{queue}"
[providers.scripted]
base_url = "http://127.0.0.1:{port}/v1"
dialect = "openai"
[strategies.chat]
model = "scripted/model"
servers = ["commands"]
[commands.book]
description = "Books a table."
url = "http://127.0.0.1:{port}/book"
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class World(BaseHTTPRequestHandler):
    """A model that books a table and then says so, and the command that books. Each call takes a moment."""

    protocol_version = "HTTP/1.1"
    booked = collections.Counter()
    asked = 0

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        time.sleep(0.3)
        if self.path == "/book":
            World.booked[self.headers["idempotency-key"]] += 1
            return self.answer({"booked": True})
        World.asked += 1
        if body["messages"][-1]["role"] == "tool":
            message = {"role": "assistant", "content": "Booked."}
        else:
            function = {"name": body["tools"][0]["function"]["name"], "arguments": "{}"}
            message = {"role": "assistant", "content": None, "tool_calls": [{"id": f"call_{World.asked}", "type": "function", "function": function}]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if message["content"] is None else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self.answer({"id": "1", "object": "chat.completion", "created": 1, "model": "model", "choices": [choice], "usage": usage})

    def answer(self, value):
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Deployment:
    """The processes of a deployment, and the addresses of its APIs."""

    def __init__(self, folder, apis):
        self.folder, self.running, self.ports = folder, {}, {f"api{nth}": free_port() for nth in range(apis)}
        self.serving = []

    def start(self, binary, name, build):
        args = ["api", "--set", f"api.listen=127.0.0.1:{self.ports[name]}"] if name in self.ports else ["worker", "--set", f"worker.name={name}-{build}"]
        with open(self.folder / f"{name}-{build}.log", "w") as log:
            process = subprocess.Popen([binary, *args], cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.running[name] = process
        if name in self.ports:
            until(lambda: process.poll() is not None or status(f"{self.url(name)}/readyz") == 200, f"{name}-{build} is ready")
            self.serving.append(name)
        else:
            time.sleep(1)
        if process.poll() is not None:
            raise SystemExit(f"{name}-{build} does not start:\n{(self.folder / f'{name}-{build}.log').read_text()[-2000:]}")

    def stop(self, name):
        process = self.running.pop(name)
        if name in self.serving:
            # As a load balancer does it: no new requests, then the end.
            self.serving.remove(name)
            time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        process.wait(60)

    def end(self):
        for process in self.running.values():
            process.kill()

    def url(self, name):
        return f"http://127.0.0.1:{self.ports[name]}"


def status(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status
    except OSError:
        return None


def until(holds, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {seconds} s: {what}")
        time.sleep(0.1)


class Load(threading.Thread):
    """A client: one request after the other, each repeated until it is answered.

    Half of them are turns on threads of their own, half chat completions, of which four make one conversation.
    """

    def __init__(self, deployment, number):
        super().__init__(daemon=True)
        self.deployment, self.number, self.stops = deployment, number, threading.Event()
        self.answers, self.errors, self.conversation = {}, collections.Counter(), []

    def run(self):
        nth = 0
        while not self.stops.is_set():
            key = f"order-{self.number}-{nth}"
            self.answers[key] = self.ask(key, nth)
            nth += 1

    def ask(self, key, nth):
        text, deadline = f"Book a table, please: {key}.", time.monotonic() + RETRIED_FOR
        is_chat = nth % 2 == 1
        if is_chat:
            earlier = self.conversation if len(self.conversation) < 8 else []
            self.conversation = [*earlier, {"role": "user", "content": text}]
            path, body = "/v1/chat/completions", {"model": "turnfold/chat", "messages": self.conversation}
        else:
            path, body = "/v1/turns?wait=30", {"strategy": "chat", "input": text}
        while time.monotonic() < deadline:
            for name in list(self.deployment.serving)[self.number % 2 :] or list(self.deployment.serving):
                headers = {"content-type": "application/json", "idempotency-key": key}
                request = urllib.request.Request(self.deployment.url(name) + path, json.dumps(body).encode(), headers)
                try:
                    with urllib.request.urlopen(request, timeout=40) as answer:
                        read = json.loads(answer.read())
                    if is_chat:
                        self.conversation.append({"role": "assistant", "content": read["choices"][0]["message"]["content"]})
                    if read.get("status", "completed") == "completed":
                        return json.dumps(read)
                    if read["status"] in ("failed", "cancelled"):
                        return json.dumps(read)
                except urllib.error.HTTPError as error:
                    said = error.read().decode()
                    self.errors[f"{error.code} {json.loads(said).get('detail', said)[:160]}" if said.startswith("{") else f"{error.code}"] += 1
                    if error.code == 422:
                        return said
                except OSError as error:
                    self.errors[type(error).__name__] += 1
                break
            time.sleep(0.2)
        return None


def replaced(deployment, new, drains, pause):
    """Replaces the processes. APIs come first, because they read what any worker writes."""
    steps = []
    began = time.monotonic()

    def step(what):
        steps.append(f"{time.monotonic() - began:5.1f} s: {what}")
        print(steps[-1], file=sys.stderr, flush=True)

    done = subprocess.run([new, "migrate"], cwd=deployment.folder, capture_output=True, text=True)
    step(f"migrate: {(done.stdout + done.stderr).strip()}")
    if done.returncode:
        raise SystemExit("the new build cannot migrate")
    names = list(deployment.running)
    for name in [name for name in names if name in deployment.ports]:
        time.sleep(pause)
        deployment.stop(name)
        deployment.start(new, name, "new")
        step(f"{name} replaced")
    workers = [name for name in names if name not in deployment.ports]
    if drains:
        for name in workers:
            deployment.stop(name)
        step("all old workers ended")
    for name in workers:
        if not drains:
            time.sleep(pause)
            deployment.stop(name)
        deployment.start(new, name, "new")
        step(f"{name} replaced")
    return steps


def checks(new, folder):
    """Runs the checks of the new build, and returns what each prints."""
    found = {}
    for command in (["store", "verify"], ["store", "rebuild", "--dry-run"], ["audit", "replay"]):
        done = subprocess.run([new, *command], cwd=folder, capture_output=True, text=True)
        found[" ".join(command)] = {"exit": done.returncode, "says": (done.stdout + done.stderr).strip().splitlines()[-4:]}
    return found


def warnings(folder):
    """Counts the warnings and errors of all processes by their first words."""
    lines = [line for log in folder.glob("*.log") for line in log.read_text().splitlines()]
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    said = [re.split(r" WARN | ERROR ", line, maxsplit=1)[1] for line in lines if re.search(r" (WARN|ERROR) ", line)]
    return collections.Counter(re.split(r" \w+=", line)[0][:120] for line in said)


def report(loads, findings, steps, warned):
    answers = {key: answer for load in loads for key, answer in load.answers.items()}
    errors = sum((load.errors for load in loads), collections.Counter())
    wrong = {key: (answer or "no answer")[:300] for key, answer in answers.items() if not answer or "Booked." not in answer}
    repeated = {key: count for key, count in World.booked.items() if count > 1}
    is_clean = all(found["exit"] == 0 for found in findings.values())
    booked = len(World.booked)
    said = {"steps": steps, "requests": len(answers), "wrong": len(wrong), "booked": booked, "repeated": len(repeated)}
    said |= {"first_wrong": dict(list(wrong.items())[:3]), "errors_that_clients_saw": errors, "warnings": warned, "checks": findings}
    print(json.dumps(said, indent=1))
    return 0 if answers and not wrong and not repeated and booked == len(answers) and is_clean else 1


def main():
    parser = argparse.ArgumentParser()
    for name in ("old", "new", "servers"):
        parser.add_argument(name)
    parser.add_argument("--drain", action="store_true", help="end all old workers before the first new one starts")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--pause", type=float, default=2, help="seconds between two steps")
    args = parser.parse_args()
    world = ThreadingHTTPServer(("127.0.0.1", 0), World)
    threading.Thread(target=world.serve_forever, daemon=True).start()
    servers = subprocess.Popen([args.servers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    store, queue = servers.stdout.readline().strip(), servers.stdout.readline().strip()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "turnfold.toml").write_text(CONFIG.format(store=store, queue=queue, port=world.server_port))
        subprocess.run([args.old, "migrate"], cwd=folder, check=True, stdout=sys.stderr)
        deployment = Deployment(folder, 2)
        try:
            for name in ["api0", "api1", "worker0", "worker1", "worker2"]:
                deployment.start(args.old, name, "old")
            loads = [Load(deployment, number) for number in range(args.clients)]
            for load in loads:
                load.start()
            time.sleep(5)
            steps = replaced(deployment, args.new, args.drain, args.pause)
            time.sleep(5)
            for load in loads:
                load.stops.set()
            for load in loads:
                load.join(RETRIED_FOR + 60)
            code = report(loads, checks(args.new, folder), steps, warnings(folder))
            if code:
                for log in sorted(folder.glob("*.log")):
                    print(f"== {log.name}\n{log.read_text()[-1500:]}", file=sys.stderr)
        finally:
            deployment.end()
            servers.stdin.close()
            servers.wait(30)
    sys.exit(code)


main()
