# packages: gptme==0.35.1
import os
import pathlib
import subprocess
import sys
import tempfile

from cells import MODEL, PLAIN, row


def gptme(*args):
    home = tempfile.mkdtemp()
    env = {**os.environ, "HOME": home, "GPTME_CHECK": "false"}
    command = [pathlib.Path(sys.executable).parent / "gptme", "--non-interactive", "--no-confirm", "-m", f"openai/{MODEL}", *args]
    done = subprocess.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=home, timeout=80)
    if done.returncode:
        raise RuntimeError(done.stderr or done.stdout)
    return done.stdout


row(
    "gptme",
    plain=lambda: gptme("--no-stream", "--tool-format", "tool", PLAIN),
    stream=lambda: gptme("--tool-format", "tool", PLAIN),
    tools="runs its own tools only",
    typed="has no typed output",
)
