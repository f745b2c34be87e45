"""A member of the job: a rank beside a task of Spark, and what the driver's loop sees of it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterable
from typing import Protocol

from hvdlite.base.mailbox import Mailbox
from hvdlite.launch.spawn.agent_protocol import EndOne
from hvdlite.launch.spawn.events import AllGone, Event, RankEnded, RankPipes, Unanswered
from hvdlite.launch.spawn.guardian import ASKING, FORWARDED, KILL_SECONDS

# For a slow executor, in addition to what the agent there has to do.
_MARGIN_SECONDS = 5.0


class Line(Protocol):
    """The connection with the task."""

    def send(self, data: bytes) -> None: ...

    def hang_up(self) -> None:
        """Ends the task; returns at once."""

    def close(self) -> None:
        """Ends the task, and waits for the line's thread."""


class Member:
    """The ElasticRank of one member (hvdlite/launch/spawn/elastic_ranks.py)."""

    def __init__(self, number: int, line: Line, grace_seconds: float) -> None:
        self.number = number
        self._line, self._grace = line, grace_seconds
        self._news: Mailbox[Event] = Mailbox()
        self._told = False  # the loop has heard its last event
        self._over = threading.Event()  # the line's thread has told it
        (out, out_end), (errors, errors_end) = _pipe(), _pipe()
        self.pipes: dict[int, RankPipes] = {number: RankPipes(out, errors)}
        self._ends = {"stdout": out_end, "stderr": errors_end}  # of the line's thread

    def fileno(self) -> int:
        return self._news.fileno()

    def events(self) -> list[Event]:
        found = self._news.take()
        self._told = self._told or any(isinstance(event, AllGone) for event in found)
        return found

    def terminate(self) -> None:
        self._line.send(EndOne(self.number, politely=True).encode())

    def kill(self) -> None:
        self._line.send(EndOne(self.number, politely=False).encode())

    def forward(self, number: int) -> None:
        self._line.send((FORWARDED | ASKING)[signal.Signals(number)])

    def wake(self) -> None:
        """The agent does it there."""

    def is_stopped(self, table: Iterable[object]) -> bool:
        return False

    def ending_seconds(self, politely: bool) -> float:
        return (self._grace if politely else 0.0) + KILL_SECONDS + _MARGIN_SECONDS

    def abandon(self) -> list[Event]:
        """The agent has not told of the end in time."""
        self._line.hang_up()
        killed = RankEnded(self.number, signal=signal.SIGKILL)
        return [Unanswered(killed=True), killed, AllGone()]

    def close(self) -> None:
        for pipes in self.pipes.values():
            os.close(pipes.stdout)
            os.close(pipes.stderr)
        self.pipes.clear()
        if not self._told:
            self._line.close()
        self._over.wait(_MARGIN_SECONDS)
        self._news.close()

    # What the line's thread calls.

    def printed(self, name: str, data: bytes) -> None:
        """Empty: the stream has ended. Waits while the driver does not read."""
        end = self._ends.get(name)
        if end is None:
            return
        if not data:
            os.close(self._ends.pop(name))
        view = memoryview(data)
        with contextlib.suppress(OSError):  # the driver reads it no more
            while view:
                view = view[os.write(end, view) :]

    def happened(self, event: Event) -> None:
        self._news.put(event)

    def gone(self, *last: Event) -> None:
        """These are its last events."""
        while self._ends:
            os.close(self._ends.popitem()[1])
        for event in last:
            self._news.put(event)
        self._over.set()


def _pipe() -> tuple[int, int]:
    """Returns both ends; reading does not wait."""
    read, write = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(read, False)
    return read, write
