"""Compares the results of the suite with the expected failures: `compare.py EXPECTED_FAILURES FOLDER...`, a folder for each version."""

import json
import re
import sys
from pathlib import Path


def expected(file: str) -> dict[tuple[str, str, str], str]:
    """Reads the reasons, by version, scenario and check."""
    reasons = {}
    for line in Path(file).read_text().splitlines():
        if line and not line.startswith("#"):
            versions, scenario, check, reason = line.split("\t")
            reasons |= {(version, scenario, check): reason for version in versions.split(",")}
    return reasons


def results(folder: str) -> list[tuple[str, str, str, str]]:
    """Reads scenario, check, status and message of each check."""
    found = []
    for file in sorted(Path(folder).glob("server-*/checks.json")):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name.removeprefix("server-"))
        for check in json.loads(file.read_text()):
            message = " ".join(str(check.get("errorMessage", "")).split())
            found.append((scenario, check["id"], check["status"], message))
    return found


def main() -> int:
    """Prints the numbers of each version and the differences, and returns the exit code."""
    reasons, wrong = expected(sys.argv[1]), []
    for version in sys.argv[2:]:
        checks = results(version)
        if not checks:
            wrong.append(f"{version}: the suite left no result")
        failed = {(version, scenario, check): message for scenario, check, status, message in checks if status == "FAILURE"}
        passed = sum(status == "SUCCESS" for _, _, status, _ in checks)
        known = {key for key in reasons if key[0] == version}
        print(f"{version}: {passed} passed, {len(failed)} failed, {len(failed.keys() & known)} of these expected")
        wrong += [f"{' '.join(key)} failed: {failed[key][:200]}" for key in sorted(failed.keys() - known)]
        wrong += [f"{' '.join(key)} passed: remove it from the list" for key in sorted(known - failed.keys())]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


sys.exit(main())
