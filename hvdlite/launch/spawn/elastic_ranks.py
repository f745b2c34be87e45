"""Ranks of this host that come and go one by one, each with a guardian of its own.

An elastic job has them, here and behind each agent.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from hvdlite.base.mailbox import Mailbox
from hvdlite.launch.spawn import guardian
from hvdlite.launch.spawn.events import (
    AllGone,
    Event,
    RankEnded,
    RankGone,
    RankGroup,
    RankPipes,
    RankStartFailed,
    Unanswered,
)
from hvdlite.launch.spawn.silent_hosts import Patience


class ElasticRank(RankGroup, Protocol):
    """The RankGroup of one rank."""

    def is_stopped(self, table: Iterable[guardian.Process]) -> bool:
        """Whether a process of this rank is stopped. `table`: all processes of this host."""


# Starts a rank with what only this one gets, or raises OSError.
RankStarter = Callable[[int, Mapping[str, str]], ElasticRank]


class ClusterRank:
    """What the ElasticRanks have in common that another system starts, such as Ray or Spark. A
    thread writes their output to `ends` and puts their `news`."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.news: Mailbox[Event] = Mailbox()
        (out, out_end), (errors, errors_end) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        os.set_blocking(out, False)
        os.set_blocking(errors, False)
        self.pipes: dict[int, RankPipes] = {number: RankPipes(out, errors)}
        self.ends = {"stdout": out_end, "stderr": errors_end}

    def fileno(self) -> int:
        return self.news.fileno()

    def events(self) -> list[Event]:
        return self.news.take()

    def wake(self) -> None:
        """The other system tells of the end by itself."""

    def is_stopped(self, table: Iterable[object]) -> bool:
        return False

    def abandon(self) -> list[Event]:
        """The other system has not told of the end in time."""
        killed = RankEnded(self.number, signal=signal.SIGKILL)
        return [Unanswered(killed=True), killed, AllGone()]

    def close_pipes(self) -> None:
        """Ends what the thread still writes."""
        for pipes in self.pipes.values():
            os.close(pipes.stdout)
            os.close(pipes.stderr)
        self.pipes.clear()


class ElasticRanks:
    """The RankGroup of these ranks. AllGone comes when it was asked to end and none is left."""

    def __init__(self, start: RankStarter) -> None:
        self._start = start
        self._ranks: dict[int, ElasticRank] = {}  # by rank, until close_one()
        self._patience: dict[int, Patience] = {}  # by rank, until it is gone
        self._heard: list[Event] = []  # that no guardian tells
        self._ending = False
        self._news, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._all = selectors.EpollSelector()
        self._all.register(self._news, selectors.EVENT_READ)

    @property
    def pipes(self) -> Mapping[int, RankPipes]:
        return {
            rank: pipes for ranks in self._ranks.values() for rank, pipes in ranks.pipes.items()
        }

    def fileno(self) -> int:
        return self._all.fileno()

    def start_one(self, rank: int, own: Mapping[str, str]) -> RankPipes | None:
        """Starts a rank and returns its streams. None: StartFailed comes."""
        try:
            if self._ending:
                raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
            ranks = self._start(rank, own)
        except OSError as error:
            self._tell([RankStartFailed(rank, error.errno or errno.EAGAIN), RankGone(rank)])
            return None
        self._ranks[rank] = ranks
        self._patience[rank] = Patience()
        self._all.register(ranks, selectors.EVENT_READ, rank)
        return ranks.pipes[rank]

    def end_one(self, rank: int, politely: bool) -> None:
        """Asks a rank to end; it may be gone already."""
        if rank in self._patience:
            ranks = self._ranks[rank]
            if politely:
                ranks.terminate()
            else:
                ranks.kill()
            self._patience[rank].asked(ranks.ending_seconds(politely), time.monotonic())

    def close_one(self, rank: int) -> None:
        """Forgets a rank that is gone and whose streams have been read."""
        ranks = self._ranks.pop(rank, None)
        if ranks is not None:
            ranks.close()

    def left(self, now: float) -> float | None:
        """The seconds until a rank has to be given up; None: none was asked to end."""
        times = [patience.left(now) for patience in self._patience.values()]
        return min((seconds for seconds in times if seconds is not None), default=None)

    def give_up(self, now: float) -> None:
        """Kills ranks whose guardians do not answer; the events tell."""
        for rank, patience in list(self._patience.items()):
            if patience.left(now) == 0:
                self._tell(self._told(rank, self._ranks[rank].abandon()))

    def events(self) -> list[Event]:
        with contextlib.suppress(BlockingIOError):
            os.read(self._news, 4096)
        found, self._heard = self._heard, []
        for key, _ in self._all.select(0):
            rank = key.data
            if rank in self._patience:
                self._patience[rank].heard(time.monotonic())
                found += self._told(rank, self._ranks[rank].events())
        if self._ending and not self._patience:
            found.append(AllGone())
        return found

    def terminate(self) -> None:
        self._end(politely=True)

    def kill(self) -> None:
        self._end(politely=False)

    def forward(self, number: int) -> None:
        for rank in self._patience:
            self._ranks[rank].forward(number)

    def wake(self) -> None:
        for rank in self._patience:
            self._ranks[rank].wake()

    def stopped(self) -> list[int]:
        """The ranks of which a process is stopped, by SIGSTOP or a debugger."""
        table = guardian.processes()
        return [rank for rank in self._patience if self._ranks[rank].is_stopped(table)]

    def ending_seconds(self, politely: bool) -> float:
        seconds = [self._ranks[rank].ending_seconds(politely) for rank in self._patience]
        return max(seconds, default=guardian.KILL_SECONDS)

    def abandon(self) -> list[Event]:
        found: list[Event] = [Unanswered(killed=True)]
        for rank in list(self._patience):
            found += self._told(rank, self._ranks[rank].abandon())
        return [*found, AllGone()]

    def close(self) -> None:
        for rank in list(self._ranks):
            self.close_one(rank)
        if self._bell >= 0:
            self._all.close()
            os.close(self._news)
            os.close(self._bell)
            self._bell = -1

    def _end(self, politely: bool) -> None:
        self._ending = True
        for rank in list(self._patience):
            self.end_one(rank, politely)
        self._tell([])  # AllGone, if there is none

    def _tell(self, events: list[Event]) -> None:
        self._heard += events
        with contextlib.suppress(BlockingIOError):  # full, so it is readable already
            os.write(self._bell, b"e")

    def _told(self, rank: int, events: list[Event]) -> list[Event]:
        """What a guardian has told of its rank. Its last event is one among others here."""
        found: list[Event] = []
        for event in events:
            if isinstance(event, AllGone):
                self._all.unregister(self._ranks[rank])
                del self._patience[rank]
                found.append(RankGone(rank, event.resisting))
            elif not isinstance(event, Unanswered):
                found.append(event)
        return found
