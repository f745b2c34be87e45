"""Repeats the scripted faults of stuck, broken and wrong jobs, and counts the right verdicts.

python tests/soak/verdicts.py                          each fault 20 times
python tests/soak/verdicts.py --times 5 -k "blocked or dead_link"
python tests/soak/verdicts.py --jobs 3                 three at a time: they mostly wait
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FILES = ("test_verdicts.py", "test_ssh_verdicts.py", "test_full_disk.py")


def turn(number: int, chosen: str, folder: Path) -> tuple[list[str], list[str]]:
    """The names of the tests that have passed, and what the others have printed."""
    report = folder / f"{number}.xml"
    files = [str(ROOT / "tests" / "multiprocess" / name) for name in _FILES]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--basetemp={folder / str(number)}", f"--junitxml={report}", *files]
    subprocess.run(
        [*command, *(["-k", chosen] if chosen else [])],
        cwd=ROOT,
        env=os.environ | {"HVDLITE_TEST_TIER": "all"},
        stdout=subprocess.DEVNULL,
    )
    passed, others = [], []
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        inside = list(case)
        if inside:
            others.append(f"{name}: {inside[0].tag}: {inside[0].get('message')}")
        else:
            passed.append(name)
    print(f"turn {number + 1}: {len(passed)} right, {len(others)} not", flush=True)
    return passed, others


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-k", default="", metavar="EXPRESSION", help="of pytest: which faults")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        turns = list(
            pool.map(lambda number: turn(number, given.k, Path(folder)), range(given.times))
        )
    right = Counter(name for passed, _ in turns for name in passed)
    for name, count in sorted(right.items()):
        print(f"{count:3} of {given.times}  {name}")
    others = [text for _, texts in turns for text in texts]
    print("\n".join(others))
    return 0 if right and not others else 1


if __name__ == "__main__":
    sys.exit(main())
