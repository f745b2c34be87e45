"""Reaches hosts in threads, so the launcher's loop never waits for a name or for a network."""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from hvdlite.launch.spawn import ssh


@dataclass(frozen=True)
class Outcome:
    """Of one contact. Neither an agent nor a problem: the host is this machine."""

    host: str
    agent: ssh.Remote | None = None
    problem: str = ""


class Contacts:
    """`fileno()` is readable when `take()` has something.

    `reach` looks for a host with so many slots and returns its agent; None: it is this machine.
    OSError or ValueError: the host cannot take part. It ends when `over` is readable.
    """

    def __init__(self, reach: Callable[[str, int, Contacts], ssh.Remote | None]) -> None:
        self._reach = reach
        self._found: collections.deque[Outcome | str] = collections.deque()
        self._news, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.over, self._end = os.pipe2(os.O_CLOEXEC)
        self._closing = False
        self._threads: list[threading.Thread] = []

    def fileno(self) -> int:
        return self._news

    def begin(self, host: str, slots: int) -> None:
        self._start(lambda: self._contact(host, slots))

    def dismiss(self, agent: ssh.Remote) -> None:
        """Of no more use. It may take a while to end."""
        self._start(lambda: ssh.close([agent]))

    def say(self, text: str) -> None:
        """A line for people, by any thread."""
        self._found.append(text)
        self._ring()

    def take(self) -> list[Outcome | str]:
        """Outcomes, and lines for people, in their order."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._news, 4096)
        found = []
        while self._found:
            found.append(self._found.popleft())
        return found

    def close(self) -> None:
        """Ends all contacts that are under way."""
        self._closing = True
        os.write(self._end, b"e")
        for thread in self._threads:
            thread.join()
        ssh.close([each.agent for each in self.take() if isinstance(each, Outcome) and each.agent])
        for descriptor in (self._news, self._bell, self.over, self._end):
            os.close(descriptor)

    def _start(self, work: Callable[[], None]) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=work, name="hvd-contact", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _contact(self, host: str, slots: int) -> None:
        try:
            outcome = Outcome(host, self._reach(host, slots, self))
        except (OSError, ValueError) as error:
            outcome = Outcome(host, problem=str(error))
        self._found.append(outcome)
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full, so it is readable already
            os.write(self._bell, b"c")
