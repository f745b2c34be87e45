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

from hvdlite.launch.spawn import guardian
from hvdlite.launch.spawn.events import AllGone, Ended, Event, Pipes, Started, parse


@dataclass
class Ranks:
    """The Group of this host's ranks."""

    pipes: dict[int, Pipes]
    _guardian: subprocess.Popen[bytes]
    _rest: bytes = b""
    _running: dict[int, int] = field(default_factory=dict)  # rank -> pid
    _sessions: set[int] = field(default_factory=set)

    def fileno(self) -> int:
        assert self._guardian.stdout is not None
        return self._guardian.stdout.fileno()

    def events(self) -> list[Event]:
        data = os.read(self.fileno(), 65536)
        if not data:
            return self._lost_guardian()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [self._event(line.decode()) for line in lines]

    def terminate(self) -> None:
        self._command(b"T")

    def kill(self) -> None:
        self._command(b"K")

    def forward(self, number: int) -> None:
        self._command(guardian.FORWARDED[signal.Signals(number)])

    def close(self) -> None:
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
        event = parse(line)
        if isinstance(event, Started):
            self._running[event.rank] = event.pid
            self._sessions.add(event.pid)
        elif isinstance(event, Ended):
            self._running.pop(event.rank, None)
        return event

    def _lost_guardian(self) -> list[Event]:
        left = guardian.kill_sessions(self._sessions)
        ended: list[Event] = [Ended(rank, signal=signal.SIGKILL) for rank in self._running]
        self._running.clear()
        return [*ended, AllGone(left, guardian_died=True)]


def _latin(data: bytes) -> str:
    return data.decode("latin-1")


def _texts(environment: Mapping[str, str]) -> dict[str, str]:
    return {_latin(os.fsencode(name)): _latin(os.fsencode(value)) for name, value in environment.items()}


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[int, int]:
    """Its two ends, each of which its stack closes."""
    read, write = os.pipe()
    ours.callback(os.close, read)
    theirs.callback(os.close, write)
    os.set_blocking(read, False)
    return read, write


def start(
    command: Sequence[str],
    shared: Mapping[str, str],
    own: Mapping[int, Mapping[str, str]],
    secret: int | None = None,
    grace_seconds: float = guardian.GRACE_SECONDS,
    scratch: str | None = None,
    mercy_seconds: float = 0.0,
) -> Ranks:
    """One process per rank in `own`, its environment on top of `shared`. `secret`: a descriptor that they inherit.
    `grace_seconds` lie between SIGTERM and SIGKILL. `scratch`: a directory that goes when the job does, however that ends.
    `mercy_seconds`: how long before SIGKILL for all these processes get SIGTERM, without which srun would leave ranks behind."""
    pipes: dict[int, Pipes] = {}
    entries: list[dict[str, object]] = []
    inherited = [] if secret is None else [secret]
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        for rank, environment in own.items():
            stdout, stdout_write = _pipe(ours, theirs)
            stderr, stderr_write = _pipe(ours, theirs)
            pipes[rank] = Pipes(stdout, stderr)
            inherited += [stdout_write, stderr_write]
            entries.append(
                {"rank": rank, "environment": _texts(environment), "stdout": stdout_write, "stderr": stderr_write}
            )
        process = subprocess.Popen(
            [sys.executable or "python3", "-I", "-S", guardian.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            pass_fds=inherited,
        )
        ours.pop_all()  # Ranks.close() does it
    job = json.dumps(
        {
            "command": [_latin(os.fsencode(word)) for word in command],
            "environment": _texts(shared),
            "secret": secret,
            "grace_seconds": grace_seconds,
            "scratch": scratch,
            "mercy_seconds": mercy_seconds,
            "ranks": entries,
        }
    ).encode()
    ranks = Ranks(pipes, process)
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it died at once: events() says so
        process.stdin.write(f"{len(job)}\n".encode() + job)
        process.stdin.flush()
    return ranks
