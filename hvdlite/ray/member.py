"""A member of an elastic job: an actor, and what the driver's loop sees of it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import ray

from hvdlite.base.mailbox import Mailbox
from hvdlite.job import basics
from hvdlite.launch import environment, task
from hvdlite.launch.last_words import in_one_line
from hvdlite.launch.spawn.events import AllGone, Ended, Event, Pipes, Unanswered
from hvdlite.ray import place, ray_logger

_END_SECONDS = 10.0


class Member:
    """The actor."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __repr__(self) -> str:
        """Ray prints it before each line of this actor's output."""
        return f"member {self._number}"

    def run(self, variables: Mapping[str, str], key: bytes, queue: Any) -> tuple[int, str]:
        """Calls the job's function. Returns the exit status that a process would have, and the line
        that names its exception."""
        place.take(variables, key)
        ray_logger.configure(queue)
        try:
            status, line = task.run(environment.discover(os.environ))
        except SystemExit as end:
            known = end.code is None or isinstance(end.code, int)
            status, line = (int(end.code or 0), "") if known else (1, str(end.code))
        if basics.is_initialized():
            basics.shutdown()
        return status, line


class MemberActor:
    """The Party of one member (hvdlite/launch/spawn/parties.py). A thread waits for its end.

    Ray shows the output of actors. Its error stream here has the last line alone, for the verdict.
    """

    def __init__(self, number: int, actor: Any, ended: Any) -> None:
        """`ended`: the reference to what run() returns."""
        self._number, self._actor, self._ended = number, actor, ended
        self._news: Mailbox[Event] = Mailbox()
        out, out_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.close(out_end)
        errors, self._errors_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.pipes: dict[int, Pipes] = {number: Pipes(out, errors)}
        self._thread = threading.Thread(target=self._wait, name="hvd-member", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._news.fileno()

    def events(self) -> list[Event]:
        return self._news.take()

    def terminate(self) -> None:
        self.kill()

    def kill(self) -> None:
        ray.kill(self._actor)

    def forward(self, number: int) -> None:
        """Ray passes no signals on."""

    def wake(self) -> None:
        """Ray tells of the end by itself."""

    def is_stopped(self, table: Iterable[object]) -> bool:
        return False

    def ending_seconds(self, politely: bool) -> float:
        return _END_SECONDS

    def abandon(self) -> list[Event]:
        """Ray has not told of the end in time."""
        killed = Ended(self._number, signal=signal.SIGKILL)
        return [Unanswered(killed=True), killed, AllGone()]

    def close(self) -> None:
        self.kill()
        self._thread.join(_END_SECONDS)
        for pipes in self.pipes.values():
            os.close(pipes.stdout)
            os.close(pipes.stderr)
        self.pipes.clear()
        self._news.close()

    def _wait(self) -> None:
        try:
            status, line = ray.get(self._ended)
            ended = Ended(self._number, code=status)
        except Exception as error:
            ended, line = Ended(self._number, signal=signal.SIGKILL), in_one_line(error)
        with contextlib.suppress(OSError):
            os.write(self._errors_end, f"{line}\n".encode() if line else b"")
        os.close(self._errors_end)
        ray.kill(self._actor)
        self._news.put(ended)
        self._news.put(AllGone())
