"""Starts ranks on this host through a guardian (see guardian.py) and hands out what happens to them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvdlite.launch.plan import Slot
from hvdlite.launch.spawn import guardian


@dataclass(frozen=True)
class Started:
    rank: int
    pid: int


@dataclass(frozen=True)
class StartFailed:
    rank: int
    errno: int


@dataclass(frozen=True)
class Ended:
    rank: int
    code: int = 0
    signal: int = 0  # 0: it exited by itself

    @property
    def status(self) -> int:
        """As a shell counts: 128 + signal."""
        return 128 + self.signal if self.signal else self.code


@dataclass(frozen=True)
class AllGone:
    """Nothing of the job is left, but for `resisting` processes; the last event."""

    resisting: int = 0
    guardian_died: bool = False


Event = Started | StartFailed | Ended | AllGone


@dataclass(frozen=True)
class Pipes:
    """This side of a rank's two streams; not blocking."""

    stdout: int
    stderr: int


@dataclass
class Ranks:
    """The ranks of this host. Not thread-safe. Always call close(), which leaves no process behind."""

    pipes: dict[int, Pipes]
    _guardian: subprocess.Popen[bytes]
    _rest: bytes = b""
    _running: dict[int, int] = field(default_factory=dict)  # rank -> pid
    _sessions: set[int] = field(default_factory=set)

    def fileno(self) -> int:
        """Readable when there are events."""
        assert self._guardian.stdout is not None
        return self._guardian.stdout.fileno()

    def events(self) -> list[Event]:
        """What has happened; blocks until something has."""
        data = os.read(self.fileno(), 65536)
        if not data:
            return self._lost_guardian()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [self._event(line.decode()) for line in lines]

    def terminate(self) -> None:
        """SIGTERM to everything, SIGKILL after the grace period; returns at once."""
        self._command(b"T")

    def kill(self) -> None:
        """SIGKILL to everything; returns at once."""
        self._command(b"K")

    def close(self) -> None:
        """Kill what is left and wait for the guardian's end. Idempotent."""
        assert self._guardian.stdin is not None and self._guardian.stdout is not None
        with contextlib.suppress(OSError):
            self._guardian.stdin.close()  # end of file means: kill
        try:
            self._guardian.wait(timeout=2 * guardian.KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
        if self._guardian.returncode != 0:
            guardian.kill_sessions(self._sessions)
        self._guardian.stdout.close()
        for pipes in self.pipes.values():
            os.close(pipes.stdout)
            os.close(pipes.stderr)
        self.pipes.clear()

    def _command(self, letter: bytes) -> None:
        assert self._guardian.stdin is not None
        with contextlib.suppress(OSError):  # it is dead: events() says so
            self._guardian.stdin.write(letter)
            self._guardian.stdin.flush()

    def _event(self, line: str) -> Event:
        word, *rest = line.split()
        numbers = [int(text) for text in rest]
        if word == "started":
            self._running[numbers[0]] = numbers[1]
            self._sessions.add(numbers[1])
            return Started(*numbers)
        if word == "failed":
            return StartFailed(*numbers)
        if word == "done":
            return AllGone(numbers[0])
        self._running.pop(numbers[0], None)
        return Ended(numbers[0], signal=numbers[1]) if word == "killed" else Ended(*numbers)

    def _lost_guardian(self) -> list[Event]:
        left = guardian.kill_sessions(self._sessions)
        ended: list[Event] = [Ended(rank, signal=signal.SIGKILL) for rank in self._running]
        self._running.clear()
        return [*ended, AllGone(left, guardian_died=True)]


def _latin(data: bytes) -> str:
    return data.decode("latin-1")


def _texts(environment: Mapping[str, str]) -> dict[str, str]:
    return {_latin(os.fsencode(name)): _latin(os.fsencode(value)) for name, value in environment.items()}


def start(
    slots: Sequence[Slot],
    command: Sequence[str],
    shared: Mapping[str, str],
    own: Mapping[int, Mapping[str, str]],
    secret: int | None = None,
) -> Ranks:
    """One process per slot. `own` is each rank's environment on top of `shared`; `secret` a descriptor."""
    pipes: dict[int, Pipes] = {}
    theirs: list[int] = []
    entries: list[dict[str, object]] = []
    for slot in slots:
        stdout, stdout_write = os.pipe()
        stderr, stderr_write = os.pipe()
        os.set_blocking(stdout, False)
        os.set_blocking(stderr, False)
        pipes[slot.rank] = Pipes(stdout, stderr)
        theirs += [stdout_write, stderr_write]
        environment = _texts(own[slot.rank])
        entries.append({"rank": slot.rank, "environment": environment, "stdout": stdout_write, "stderr": stderr_write})
    job = json.dumps(
        {
            "command": [_latin(os.fsencode(word)) for word in command],
            "environment": _texts(shared),
            "secret": secret,
            "ranks": entries,
        }
    ).encode()
    process = subprocess.Popen(
        [sys.executable or "python3", "-I", "-S", guardian.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        pass_fds=[*theirs, *([] if secret is None else [secret])],
    )
    for descriptor in theirs:
        os.close(descriptor)
    ranks = Ranks(pipes, process)
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it died at once: events() says so
        process.stdin.write(f"{len(job)}\n".encode() + job)
        process.stdin.flush()
    return ranks
