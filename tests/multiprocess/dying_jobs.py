"""Jobs whose ranks die by dying.py, and what the processes tell that come to the end."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from launched import Job
from others import PYTHON

# A slot is used again at once.
_SOON = ("--blacklist-cooldown-range", "0.02", "100")


def ended(
    job: Job, program: str, kills: list[str], epochs: int, *flags: str, **more: str
) -> list[Any]:
    """Of a job of three ranks, by rank. With RANKS, it goes on until there are so many again."""
    least = 1 if "RANKS" in more else max(1, 3 - len(kills))
    job.end_well(
        "-np", "3", "--min-np", str(least), *_SOON, *flags, PYTHON, program,
        KILLS="\n".join(kills), EPOCHS=str(epochs), **more,
    )  # fmt: skip
    assert len(list(job.directory.glob("killed.*"))) == len(kills), "a rank did not die"
    found = [json.loads(path.read_text()) for path in job.directory.glob("end.*")]
    found.sort(key=lambda each: each["place"])
    assert [each["place"] for each in found] == [[r, len(found)] for r in range(len(found))]
    return found


def kills_at_random(
    seed: int, moments: Sequence[str], last: int = 400, of_rank_0: Sequence[str] = ()
) -> list[str]:
    """Five deaths of any rank, up to this turn; of rank 0 in a third of them, and at moments that
    it alone has. Prints them."""
    choose = random.Random(seed)
    kills = []
    for number, at in enumerate(sorted(choose.sample(range(2, last), 5))):
        rank, moment = choose.choice((0, 1, 2) if number % 3 else (0,)), choose.choice(moments)
        kills.append(f"{0 if moment in of_rank_0 else rank} {at} {moment}")
    print(f"seed {seed}: {kills}")
    return kills
