"""How far an elastic job has come."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Phase(Enum):
    GATHERING = "gathering"  # reports of the living members of generation g are awaited
    FORMING = "forming"  # roll g + 1 is written, its engines come up
    RUNNING = "running"  # all are in; a loss or a report ends the generation
    ENDED = "ended"


@dataclass
class Progress:
    """How far the job has come."""

    met: bool = False  # a generation was up since the job has started, or started anew
    up: int = 0  # the last generation that was up
    cohort: bool = False  # those that the first generation waits for are started
    resets: int = 0  # generations with other members than the one before
    ranks: tuple[int, ...] = ()  # of the latest roll
