"""Runs the clients of `rows/`, and compares the table with `expected.json`: `table.py FOLDER [-o json] [--accept] [ROW …]`."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
CELLS = ["plain", "stream", "tools", "typed", "memory", "approval"]


def packages(row):
    return row.read_text().splitlines()[0].split("packages: ")[1].split()


def install(row, folder):
    """Installs the packages of a row, and returns the command that runs it."""
    place = folder / row.stem
    if row.suffix == ".mjs":
        place.mkdir()
        (place / "package.json").write_text('{"private": true, "type": "module"}')
        run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--cache", folder / "npm", *packages(row)], place)
        (place / "rows").mkdir()
        shutil.copy(row, place / "rows")
        shutil.copy(HERE / "cells.mjs", place)
        return ["node", place / "rows" / row.name]
    uv = folder / "tools" / "bin" / "uv"
    run([uv, "venv", "--quiet", "--python", sys.executable, place], folder)
    run([uv, "pip", "install", "--quiet", "--python", place / "bin" / "python", *packages(row)], folder)
    return [place / "bin" / "python", row]


def run(command, folder):
    subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)


def cells_of(row, folder):
    """Installs a client, runs it, and removes it. Without a word of it, there is one cell that tells why."""
    try:
        command, env = install(row, folder), {**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}
        with open(folder / f"{row.stem}.log", "w") as log:
            done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=log, text=True, timeout=900)
        cells = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"row"')]
        why = (folder / f"{row.stem}.log").read_text().strip().splitlines()[-1:]
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        cells, why = [], [str(error)]
    shutil.rmtree(folder / row.stem, ignore_errors=True)
    return cells or [{"row": row.stem, "cell": "plain", "says": "no", "seen": "".join(why)}]


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("-o", dest="output", choices=["table", "json"], default="table")
    parser.add_argument("--accept", action="store_true", help="writes what was found to expected.json")
    parser.add_argument("rows", nargs="*", help="names of files, without their ends; all if omitted")
    return parser.parse_intermixed_args()


def main():
    args = parsed()
    expected = json.loads((HERE / "expected.json").read_text())
    found, wrong = {}, []
    for row in sorted((HERE / "rows").iterdir()):
        if row.suffix not in (".py", ".mjs") or (args.rows and row.stem not in args.rows):
            continue
        for cell in cells_of(row, args.folder):
            table = found.setdefault(cell["row"], {"packages": packages(row), "cells": {}})
            table["cells"][cell["cell"]] = {"says": cell["says"], "seen": cell["seen"]}
            before = expected.get(cell["row"], {}).get(cell["cell"], "-")
            if before.split(":")[0] != cell["says"] and not (before.startswith("no:") and cell["says"] == "yes"):
                wrong.append(f"{cell['row']}: {cell['cell']}: {before} is expected, found {cell['says']}: {cell['seen']}")
            print(f"{cell['row']}: {cell['cell']}: {cell['says']}", file=sys.stderr)
    if args.accept:
        kept = lambda name, cell, says: before if (before := expected.get(name, {}).get(cell, "")).split(":")[0] == says else says  # noqa: E731
        says = {name: {cell: kept(name, cell, one["says"]) for cell, one in row["cells"].items() if one["says"] != "-"} for name, row in found.items()}
        (HERE / "expected.json").write_text(json.dumps({**expected, **says}, indent=1) + "\n")
    print(json.dumps(found, indent=1) if args.output == "json" else markdown(found, expected))
    print("\n".join(wrong), file=sys.stderr)
    sys.exit(1 if wrong else 0)


def markdown(found, expected):
    lines = [f"| client | {' | '.join(CELLS)} | packages | seen |", "|---" * (len(CELLS) + 3) + "|"]
    for name, row in found.items():
        says = [row["cells"].get(cell, {}).get("says", "-") for cell in CELLS]
        notes = []
        for cell, one in row["cells"].items():
            own_reason = expected.get(name, {}).get(cell, "").partition(": ")[2]
            if one["seen"]:
                notes.append(f"{cell}: {own_reason or one['seen']}".replace("|", "\\|").replace("\n", " "))
        lines.append(f"| {name} | {' | '.join(says)} | {' '.join(row['packages'])} | {'; '.join(notes)} |")
    for cell in CELLS:
        count = sum(row["cells"].get(cell, {}).get("says") == "yes" for row in found.values())
        lines.append(f"\n{cell}: {count} of {len(found)}")
    return "\n".join(lines)


main()
