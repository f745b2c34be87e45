"""Soaks the drift guard in real training: no alarm in a million comparisons, and each flipped bit
found within the steps that HVDLITE_DRIFT_STEPS allows.

torch trains in five ways, each in a job of its own: with AMP and a GradScaler, with accumulation
and clipping, with hvd.join() and uneven data, in process sets, and with parameters that the program
has declared to differ. The guard compares in each step. drift_in_training_ranks.py is what the
ranks run.

python tests/soak/drift_in_training.py                     a million, 20 flips in each way
python tests/soak/drift_in_training.py --comparisons 20000 --ways amp join
python tests/soak/drift_in_training.py --comparisons 0     only flips
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in ("tests", "tests/multiprocess", "tests/conformance", "."):
    sys.path.insert(0, str(ROOT / folder))

from launched import Job  # noqa: E402

PROGRAM = Path(__file__).with_name("drift_in_training_ranks.py")
# The ranks of each way.
WAYS = {"amp": 2, "accumulation": 2, "join": 3, "process sets": 4, "local set": 2}
WITHIN = 2  # steps


@dataclass(frozen=True)
class Outcome:
    compared: int
    unlike: int  # how often digests differed and values did not
    flips: list[int]  # after how many steps each was found


def soak(job: Job, way: str, comparisons: int, flips: int) -> Outcome:
    """Runs a job, in the job's folder. An alarm without a flip, or a flip without an alarm, is an
    AssertionError."""
    done = job.run(
        *("-np", str(WAYS[way]), sys.executable, str(PROGRAM), way, str(comparisons), str(flips)),
        HVDLITE_DRIFT="error",
        HVDLITE_DRIFT_STEPS=str(WITHIN),
        HVDLITE_PARAMETER_CHECK="error",
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
    outcome = Outcome(**json.loads((job.directory / "result.json").read_text()))
    assert all(0 < steps <= WITHIN for steps in outcome.flips), outcome
    return outcome


def tell(way: str, outcome: Outcome, seconds: float) -> None:
    flips = f"{len(outcome.flips)} flipped bits found"
    if outcome.flips:
        flips += f" after at most {max(outcome.flips)} steps"
    print(
        f"{way:12}  {outcome.compared} comparisons, 0 alarms, {outcome.unlike} times digests "
        f"differed and values did not; {flips}; {WAYS[way]} ranks, {seconds:.0f} s",
        flush=True,
    )


def run(ways: Sequence[str], comparisons: int, flips: int) -> int:
    """Returns how many comparisons there were, equally many in each way at least."""
    total = 0
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:
            job, begin = Job(Path(folder)), time.monotonic()
            each = -(-comparisons // len(ways))
            if way == "process sets":
                each = -(-each // 2)  # there are two
            outcome = soak(job, way, each, flips)
            assert not job.wait_until_gone(3.0), "processes remain"
        tell(way, outcome, time.monotonic() - begin)
        total += outcome.compared
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=1_000_000, help="in all ways together")
    parser.add_argument("--flips", type=int, default=20, help="in each way")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    given = parser.parse_args()
    total = run(given.ways, given.comparisons, given.flips)
    print(f"{total} comparisons, 0 alarms")


if __name__ == "__main__":
    main()
