#!/usr/bin/env python3
"""Writes a bill of materials of the turnfold binary (CycloneDX 1.5, JSON) to standard output.

    ops/sbom.py > turnfold.cdx.json

Everything comes from `cargo metadata` and Cargo.lock: the crates that the binary is built from, without those that only tests
use. The same checkout always gives the same output.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = "turnfold"


def metadata():
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--locked", "--offline", "--format-version=1"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def built_from(resolved, root):
    """Returns the ids of the packages that the root is built from, itself included, without dependencies of tests."""
    nodes = {node["id"]: node for node in resolved["nodes"]}
    found, open_ids = {root}, [root]
    while open_ids:
        for dependency in nodes[open_ids.pop()]["deps"]:
            is_used = any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
            if is_used and dependency["pkg"] not in found:
                found.add(dependency["pkg"])
                open_ids.append(dependency["pkg"])
    return found


def component(package, checksums):
    name, version = package["name"], package["version"]
    item = {
        "type": "application" if name == BINARY else "library",
        "name": name,
        "version": version,
        "bom-ref": f"{name}@{version}",
    }
    if package["source"]:
        item["purl"] = f"pkg:cargo/{name}@{version}"
    if package["license"]:
        # Older crates write "/" for "OR".
        item["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    if checksum := checksums.get((name, version)):
        item["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return item


def main():
    data = metadata()
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(it["name"], it["version"]): it.get("checksum") for it in lock["package"]}
    packages = {it["id"]: it for it in data["packages"]}
    root = next(it["id"] for it in data["packages"] if it["name"] == BINARY)
    ids = built_from(data["resolve"], root)
    components = [component(packages[it], checksums) for it in ids - {root}]
    components.sort(key=lambda it: (it["name"], it["version"]))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(packages[root], checksums)},
        "components": components,
    }
    json.dump(document, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
