"""Jobs whose ranks die by dying.py, and what the processes tell that come to the end."""

from __future__ import annotations

import json
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
