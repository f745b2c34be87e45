"""Where an elastic job's hosts come from: a script that is run once a second, a hostfile that is
read again when it has changed, or the command line.

A thread runs the script, so it may hang, and looks at the file, whose disk may be slow. `discovery`
decides what runs of a script mean.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from hvdlite.base.mailbox import Mailbox
from hvdlite.launch.elastic.discovery import MOST_BYTES, Answer, Answers
from hvdlite.launch.hosts import Host, parse_hostfile

# Read each time, so that a test may shorten it. The name is that of horovod.runner.elastic.driver.
DISCOVER_HOSTS_FREQUENCY_SECS = 1.0
LIMIT_SECONDS = 30.0
_LOOK_SECONDS = 0.05


class HostSource(Mailbox[Answer]):
    """`take()` gives the answers that are new."""

    is_final = False  # whether its first answer is the last


class HostDiscovery(HostSource):
    """Asks again and again in a thread until close()."""

    # For the end of an answer under way; None: it ends by itself, or _hurry() ends it.
    patience: float | None = None

    def __init__(self, ask: Callable[[], Answer]) -> None:
        super().__init__()
        self._ask = ask
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hvd-discovery", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._hurry()
        self._thread.join(self.patience)
        super().close()

    def _hurry(self) -> None:
        """Ends what the thread waits for."""

    def _run(self) -> None:
        while not self._closing.is_set():
            answer = self._ask()
            if self._closing.is_set():
                return
            if answer.hosts is not None or answer.trouble:
                self.put(answer)
            self._closing.wait(DISCOVER_HOSTS_FREQUENCY_SECS)


class ScriptDiscovery(HostDiscovery):
    """Runs the script."""

    def __init__(self, script: str, slots_per_host: int) -> None:
        self._script = script
        self._answers = Answers(slots_per_host)
        self._running: subprocess.Popen[bytes] | None = None
        super().__init__(self._run_script)

    def _hurry(self) -> None:
        self._kill(self._running)

    def _run_script(self) -> Answer:
        with subprocess.Popen(
            self._script,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            self._running = process
            if self._closing.is_set():
                self._kill(process)
            output = self._read(process)
            too_much = output is not None and len(output) > MOST_BYTES
            if output is None or too_much:
                self._kill(process)
            status = process.wait()
            self._running = None
        if output is None:
            return self._answers.hangs(LIMIT_SECONDS)
        return self._answers.ended(0 if too_much else status, output)

    def _read(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """What the script prints until it ends; None: it runs for too long.

        The end of its output would not do: a process that it leaves behind may have it open.
        """
        assert process.stdout is not None
        end = time.monotonic() + LIMIT_SECONDS
        output = select.poll()
        output.register(process.stdout, select.POLLIN)
        found, is_open = b"", True
        while len(found) <= MOST_BYTES:
            has_ended = process.poll() is not None  # nothing comes behind what is read now
            if is_open and output.poll(0 if has_ended else _LOOK_SECONDS * 1000):
                data = os.read(process.stdout.fileno(), MOST_BYTES)
                found, is_open = found + data, bool(data)
            elif has_ended:
                return found
            elif not is_open:
                self._closing.wait(_LOOK_SECONDS)
            if time.monotonic() > end:
                return None
        return found

    @staticmethod
    def _kill(process: subprocess.Popen[bytes] | None) -> None:
        """With all that the script has started: its session is its own."""
        if process is not None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)


class HostfileDiscovery(HostDiscovery):
    """Reads the file when it has changed. `hosts`: what it has named at the start."""

    def __init__(self, path: str, slots_per_host: int, hosts: Sequence[Host]) -> None:
        self._path = path
        self._slots_per_host = slots_per_host
        self._hosts: tuple[Host, ...] = ()
        self._first = tuple(hosts)
        self._seen: tuple[int, ...] = ()
        self._told = ""
        super().__init__(self._look)

    def _look(self) -> Answer:
        """Trouble is told once, and the last hosts stay."""
        if not self._hosts:
            self._hosts = self._first
            return Answer(self._hosts)
        try:
            state = os.stat(self._path)
            seen = (state.st_mtime_ns, state.st_size, state.st_ino)
            if seen == self._seen:
                return Answer()
            with open(self._path) as file:
                hosts = tuple(parse_hostfile(file.read(), self._path, self._slots_per_host))
        except (OSError, ValueError) as error:
            said = str(error)
            if isinstance(error, OSError):
                said = f"cannot read {self._path}: {error.strerror}."
            trouble = "" if said == self._told else f"{said} Its last hosts stay."
            self._told = said
            return Answer(trouble=trouble)
        self._seen, self._told = seen, ""
        changed, self._hosts = hosts != self._hosts, hosts
        return Answer(hosts if changed else None)


class FixedHosts(HostSource):
    """The hosts of the command line: one answer."""

    is_final = True

    def __init__(self, hosts: Sequence[Host]) -> None:
        super().__init__()
        self.put(Answer(tuple(hosts)))
