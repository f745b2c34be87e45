"""What ranks of benchmarks/elastic share: the plan, their notes, and when one of them dies.

The second argument of a worker is a file of JSON, the plan, and beside it lie the ranks' notes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

PLAN = json.loads(Path(sys.argv[2]).read_text())
FOLDER = Path(sys.argv[2]).parent
_NOTES = os.open(FOLDER / f"notes.{os.getpid()}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)


def note(what: str, **more: Any) -> None:
    line = {"what": what, "at": time.monotonic(), "pid": os.getpid(), **more}
    os.write(_NOTES, (json.dumps(line) + "\n").encode())


def deaths() -> int:
    return len(list(FOLDER.glob("death.*")))


def over() -> bool:
    return deaths() >= PLAN["deaths"]


def die_if_due(generation: int, rank: int, size: int, steps: int) -> None:
    """The last rank, the first and one between take turns. One death in each generation that has
    all ranks, after so many of its steps."""
    if size != PLAN["ranks"] or steps < PLAN["steps"] or over():
        return
    mark = FOLDER / f"death.{generation}"
    if rank == (size - 1, 0, size // 2)[deaths() % 3] and not mark.exists():
        mark.touch()
        die(generation=generation, rank=rank, size=size)


def die(**more: Any) -> None:
    note("death", **more)
    os.kill(os.getpid(), signal.SIGKILL)
