"""Where an elastic job's hosts come from: a script that is run once a second, or the command line.

The script runs in a thread of its own, so it may hang. `discovery` decides what its runs mean.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence

from hvdlite.base.mailbox import Mailbox
from hvdlite.launch.elastic.discovery import MOST_BYTES, Answer, Answers
from hvdlite.launch.hosts import Host

# Read each time, so that a test may shorten it.
PERIOD_SECONDS = 1.0
LIMIT_SECONDS = 30.0


class Scout(Mailbox[Answer]):
    """Runs the script again and again until close(). `take()` gives the answers that name other
    hosts than before, or tell of trouble."""

    def __init__(self, script: str, slots_per_host: int) -> None:
        super().__init__()
        self._script = script
        self._answers = Answers(slots_per_host)
        self._closing = threading.Event()
        self._running: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="hvd-discovery", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._kill(self._running)
        self._thread.join()
        super().close()

    def _run(self) -> None:
        while not self._closing.is_set():
            answer = self._ask()
            if self._closing.is_set():
                return
            if answer.hosts is not None or answer.trouble:
                self.put(answer)
            self._closing.wait(PERIOD_SECONDS)

    def _ask(self) -> Answer:
        late = threading.Event()
        with subprocess.Popen(
            self._script,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            self._running = process
            alarm = threading.Timer(LIMIT_SECONDS, self._out_of_time, (process, late))
            alarm.start()
            assert process.stdout is not None
            output = process.stdout.read(MOST_BYTES + 1)
            if len(output) > MOST_BYTES:
                self._kill(process)
            status = process.wait()
            alarm.cancel()
            self._running = None
        if late.is_set():
            return self._answers.hangs(LIMIT_SECONDS)
        return self._answers.ended(0 if len(output) > MOST_BYTES else status, output)

    def _out_of_time(self, process: subprocess.Popen[bytes], late: threading.Event) -> None:
        late.set()
        self._kill(process)

    @staticmethod
    def _kill(process: subprocess.Popen[bytes] | None) -> None:
        """With all that the script has started: its session is its own."""
        if process is not None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)


class Fixed:
    """The hosts of the command line: one answer."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._found = [Answer(tuple(hosts))]

    def fileno(self) -> int:
        return -1

    def take(self) -> list[Answer]:
        found, self._found = self._found, []
        return found

    def close(self) -> None:
        pass
