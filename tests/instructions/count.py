"""Counts the instructions of hot operations with callgrind and compares them with counts.json.

scripts/instructions            more than 2 % above the committed counts is an error
scripts/instructions --write    commits to today's counts

One rank runs alone, so nothing waits and the counts hardly differ from run to run. They say what
hvdlite's own code costs, not what memory and other ranks cost: benchmarks/ measures those.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from operations import OPERATIONS

HERE = Path(__file__).resolve().parent
COUNTS = HERE / "counts.json"
LIMIT = 1.02
# Of a dump: which operation, how often it was called, and the instructions since the dump before.
_DUMP = re.compile(r"^desc: Trigger: dump (\d+)\.(\d+)$.*^summary: (\d+)$", re.M | re.S)


def count() -> dict[str, int]:
    """Instructions per call."""
    with tempfile.TemporaryDirectory(prefix="hvd-instructions-") as folder:
        command = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={folder}/dump",
            sys.executable,
            str(HERE / "operations.py"),
        ]
        # The same order of sets and dictionaries in each run, and no threads of torch's own.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        subprocess.run(command, check=True, env=environment)
        totals: dict[int, dict[int, int]] = {}
        for path in Path(folder).iterdir():
            if dump := _DUMP.search(path.read_text()):
                number, calls, instructions = map(int, dump.groups())
                totals.setdefault(number, {})[calls] = instructions
    found = {}
    for number, name in enumerate(OPERATIONS):
        (few, of_few), (many, of_many) = sorted(totals[number].items())
        found[name] = round((of_many - of_few) / (many - few))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write counts.json")
    given = parser.parse_args()
    found = count()
    if given.write:
        COUNTS.write_text(json.dumps(found, indent=2) + "\n")
    committed = json.loads(COUNTS.read_text())
    assert found.keys() == committed.keys(), "counts.json is of other operations: --write"
    above = []
    for name, instructions in found.items():
        ratio = instructions / committed[name]
        print(f"{name}: {instructions:,} instructions, {ratio - 1:+.2%}")
        if ratio > LIMIT:
            above.append(name)
    if above:
        sys.exit(f"more than 2 % above tests/instructions/counts.json: {', '.join(above)}")


if __name__ == "__main__":
    main()
