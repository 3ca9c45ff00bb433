# packages: shell-gpt==1.5.1 click==8.5.1
import os
import pathlib
import subprocess
import sys
import tempfile

from cells import BASE, MODEL, PLAIN, row


def sgpt(*args):
    env = {**os.environ, "HOME": tempfile.mkdtemp(), "API_BASE_URL": BASE, "DEFAULT_MODEL": MODEL, "PRETTIFY_MARKDOWN": "false"}
    command = [pathlib.Path(sys.executable).parent / "sgpt", "--no-cache", *args]
    done = subprocess.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


row("shell-gpt", plain=lambda: sgpt("--no-functions", PLAIN), stream=lambda: sgpt(PLAIN), tools="asks before it installs functions", typed="has no typed output")
