"""Where an elastic job's hosts come from: a script that is run once a second, or the command line.

The script runs in a thread of its own, so it may hang. Its first failure ends the job; later ones
are told once, and the last answer stays.
"""

from __future__ import annotations

import collections
import contextlib
import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from hvdlite.launch.elastic import discovery
from hvdlite.launch.hosts import Host

# Read each time, so that a test may shorten it.
PERIOD_SECONDS = 1.0
LIMIT_SECONDS = 30.0


@dataclass(frozen=True)
class Failed:
    """The script has not named hosts. `first`: it never has."""

    why: str
    first: bool


class Scout:
    """Runs the script again and again until close(). `take()` gives what is new."""

    def __init__(self, script: str, slots_per_host: int) -> None:
        self._script = script
        self._slots_per_host = slots_per_host
        self._found: collections.deque[tuple[Host, ...] | Failed] = collections.deque()
        self._news, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._closing = threading.Event()
        self._running: subprocess.Popen[bytes] | None = None
        self._last: tuple[Host, ...] | Failed | None = None
        self._answered = False
        self._thread = threading.Thread(target=self._run, name="hvd-discovery", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._news

    def take(self) -> list[tuple[Host, ...] | Failed]:
        """The answers that differ from the one before, in their order."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._news, 4096)
        found = []
        while self._found:
            found.append(self._found.popleft())
        return found

    def close(self) -> None:
        self._closing.set()
        running = self._running
        if running is not None:
            with contextlib.suppress(OSError):
                running.kill()
        self._thread.join()
        os.close(self._news)
        os.close(self._bell)

    def _run(self) -> None:
        while not self._closing.is_set():
            answer = self._ask()
            if self._closing.is_set():
                return
            self._answered = self._answered or not isinstance(answer, Failed)
            if answer != self._last:
                self._last = answer
                self._found.append(answer)
                os.write(self._bell, b"d")
            self._closing.wait(PERIOD_SECONDS)

    def _ask(self) -> tuple[Host, ...] | Failed:
        try:
            return discovery.parse(self._output(), self._slots_per_host)
        except (OSError, ValueError) as error:
            return Failed(str(error), first=not self._answered)

    def _output(self) -> bytes:
        with subprocess.Popen(
            self._script,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            self._running = process
            alarm = threading.Timer(LIMIT_SECONDS, process.kill)
            alarm.start()
            try:
                assert process.stdout is not None
                output = process.stdout.read(discovery.MOST_BYTES + 1)
                if len(output) > discovery.MOST_BYTES:
                    process.kill()
                status = process.wait()
            finally:
                alarm.cancel()
                self._running = None
        if len(output) <= discovery.MOST_BYTES and status != 0:
            raise ValueError(f"it has ended with status {status}")
        return output


class Fixed:
    """The hosts of the command line: one answer."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._found: list[tuple[Host, ...] | Failed] = [tuple(hosts)]

    def fileno(self) -> int:
        return -1

    def take(self) -> list[tuple[Host, ...] | Failed]:
        found, self._found = self._found, []
        return found

    def close(self) -> None:
        pass
