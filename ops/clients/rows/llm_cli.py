# packages: llm==0.36
import os
import pathlib
import subprocess
import sys
import tempfile

from cells import ASK, BASE, BOOK, MODEL, PLAIN, RAIN, TYPED, row

home = tempfile.mkdtemp()
models = [(MODEL, "supports_tools: true\n  supports_schema: true"), *((name, "can_stream: true") for name in (ASK[0], BOOK[0]))]
pathlib.Path(home, "extra-openai-models.yaml").write_text(
    "".join(f"- model_id: t-{name}\n  model_name: {name}\n  api_base: {BASE}\n  {more}\n" for name, more in models)
)
pathlib.Path(home, "tool.py").write_text('def weather(city: str) -> str:\n    "Rain that fell."\n    return f"4711 mm in {city}"\n')


def llm(*args):
    env = {**os.environ, "LLM_USER_PATH": home}
    done = subprocess.run([pathlib.Path(sys.executable).parent / "llm", *args], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def talk(model, first, answer):
    llm("-m", f"t-{model}", first)
    return llm("-c", answer)


row(
    "llm",
    plain=lambda: llm("-m", f"t-{MODEL}", "--no-stream", PLAIN),
    stream=lambda: llm("-m", f"t-{MODEL}", PLAIN),
    tools=lambda: llm("-m", f"t-{MODEL}", "--functions", f"{home}/tool.py", RAIN),
    typed=lambda: llm("-m", f"t-{MODEL}", "--schema", "city str, population int", TYPED),
    memory=lambda: talk(*ASK),
    approval=lambda: talk(*BOOK),
)
