"""Deaths of ranks in programs that go on in place.

KILLS, in the environment, has a line for each death: "rank turn moment". The first process that has
this rank, in this turn or a later one, kills itself at this moment, if there are ALIVE ranks. So
that these are all in the loop, some turns lie between two deaths then.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hvdlite as hvd

KILLS = [line.split() for line in os.environ.get("KILLS", "").splitlines()]
ALIVE = int(os.environ.get("ALIVE", "1"))
_TURNS_BETWEEN = 4


def die(moment: str, rank: int, turn: int) -> None:
    for mine, since, name in KILLS:
        if (mine, name) == (str(rank), moment) and int(since) <= turn and _is_time(turn):
            with (
                contextlib.suppress(FileExistsError),
                open(f"killed.{mine}.{since}.{name}", "x") as f,
            ):
                f.write(str(turn))
                f.flush()
                os.kill(os.getpid(), signal.SIGKILL)


def watch(die: Callable[[str], None], name: str, owner: Any, method: str) -> None:
    """die() in front of a call, and behind it."""
    plain = getattr(owner, method)

    def watched(*args: Any, **kwargs: Any) -> Any:
        die(f"before-{name}")
        result = plain(*args, **kwargs)
        die(f"behind-{name}")
        return result

    setattr(owner, method, watched)


def left() -> int:
    """How many deaths are still to come."""
    return len(KILLS) - len(list(Path().glob("killed.*")))


def _is_time(turn: int) -> bool:
    if ALIVE == 1:
        return True
    before = [int(path.read_text() or 1e9) for path in Path().glob("killed.*")]
    return hvd.size() >= ALIVE and turn >= max(before, default=-_TURNS_BETWEEN) + _TURNS_BETWEEN
