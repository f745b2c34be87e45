"""Starts ranks on this host through a guardian (see guardian.py) and reports what happens to
them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hvdlite.launch.spawn import guardian
from hvdlite.launch.spawn.events import (
    AllGone,
    Event,
    RankEnded,
    RankPipes,
    RankStarted,
    Unanswered,
    parse,
)

# A mark in the environment of all processes of a job. A job within a job adds its own.
MARKS = "HVDLITE_JOB_MARKS"
# Time for a slow guardian, in addition to what it has to do.
_MARGIN_SECONDS = 2.0


def catching(pids: Iterable[int], signal_number: int) -> list[int]:
    """Returns the processes with a handler for this signal. SIGQUIT asks a rank what it does, and
    would kill a process that does not catch it, such as a shell around the rank."""
    found: list[int] = []
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
            if catches(file.read(), signal_number):
                found.append(pid)
    return found


def catches(status: str, signal_number: int) -> bool:
    """Whether the process catches it whose /proc/PID/status reads so. Pure."""
    words = status.partition("\nSigCgt:")[2].split()
    return bool(words) and bool(int(words[0], 16) >> (signal_number - 1) & 1)


@dataclass
class LocalRanks:
    """The RankGroup of this host's ranks."""

    pipes: dict[int, RankPipes]
    _guardian: subprocess.Popen[bytes]
    _mark: bytes
    _ending_seconds: tuple[float, float]  # deadlines of terminate() and kill()
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
        if number == signal.SIGQUIT:
            own = guardian.members(guardian.processes(), self._guardian.pid, self._sessions)
            guardian.send(catching(own, number), number)
        else:
            self._command(guardian.FORWARDED[signal.Signals(number)])

    def wake(self) -> None:
        self._guardian.send_signal(signal.SIGCONT)

    def is_stopped(self, table: Iterable[guardian.Process]) -> bool:
        """Whether a process of these ranks is stopped. `table`: all processes of this host."""
        table = list(table)
        own = set(guardian.members(table, self._guardian.pid, self._sessions))
        return any(process.stopped and process.pid in own for process in table)

    def ending_seconds(self, politely: bool) -> float:
        return self._ending_seconds[0 if politely else 1] + _MARGIN_SECONDS

    def abandon(self) -> list[Event]:
        # The guardian last: while it exists, all processes of the job are its descendants.
        left = self._kill_all(self._guardian.pid)
        self._guardian.kill()
        return [Unanswered(killed=True), *self._all_ended(left, guardian_died=False)]

    def close(self) -> None:
        assert self._guardian.stdin is not None and self._guardian.stdout is not None
        with contextlib.suppress(OSError):
            self._guardian.stdin.close()  # end of file means kill
        self.wake()
        try:
            self._guardian.wait(timeout=2 * guardian.KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill_all(self._guardian.pid)
            self._guardian.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it waits for a disk
                self._guardian.wait(timeout=guardian.KILL_SECONDS)
        if self._guardian.returncode != 0:
            self._kill_all(None)
        self._guardian.stdout.close()
        for pipes in self.pipes.values():
            os.close(pipes.stdout)
            os.close(pipes.stderr)
        self.pipes.clear()

    def _command(self, letter: bytes) -> None:
        assert self._guardian.stdin is not None
        self.wake()
        with contextlib.suppress(OSError):  # it is dead; events() reports it
            self._guardian.stdin.write(letter)
            self._guardian.stdin.flush()

    def _event(self, line: str) -> Event:
        event = parse(line)
        if isinstance(event, RankStarted):
            self._running[event.rank] = event.pid
            self._sessions.add(event.pid)
        elif isinstance(event, RankEnded):
            self._running.pop(event.rank, None)
        return event

    def _lost_guardian(self) -> list[Event]:
        return self._all_ended(self._kill_all(None), guardian_died=True)

    def _kill_all(self, root: int | None) -> int:
        return guardian.kill_all(root, self._sessions, self._mark)

    def _all_ended(self, left: int, guardian_died: bool) -> list[Event]:
        ended: list[Event] = [RankEnded(rank, signal=signal.SIGKILL) for rank in self._running]
        self._running.clear()
        return [*ended, AllGone(left, guardian_died)]


def _latin(data: bytes) -> str:
    return data.decode("latin-1")


def _texts(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        _latin(os.fsencode(name)): _latin(os.fsencode(value)) for name, value in environment.items()
    }


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[int, int]:
    """Returns both ends of a pipe; a stack closes each."""
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
    processors: Mapping[int, Sequence[int]] | None = None,
) -> LocalRanks:
    """Starts one process per rank in `own`, with its environment added to `shared`.

    `secret`: a descriptor that they inherit. `grace_seconds`: time between SIGTERM and SIGKILL.
    `scratch`: a directory that is removed at the end of the job, however the job ends.
    `mercy_seconds`: grace after SIGTERM before SIGKILL for all processes; srun needs it to end its
    ranks. `processors`: those that each rank is bound to.
    """
    pipes: dict[int, RankPipes] = {}
    entries: list[dict[str, object]] = []
    inherited = [] if secret is None else [secret]
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        for rank, environment in own.items():
            stdout, stdout_write = _pipe(ours, theirs)
            stderr, stderr_write = _pipe(ours, theirs)
            pipes[rank] = RankPipes(stdout, stderr)
            inherited += [stdout_write, stderr_write]
            entries.append(
                {
                    "rank": rank,
                    "environment": _texts(environment),
                    "stdout": stdout_write,
                    "stderr": stderr_write,
                    "processors": list((processors or {}).get(rank, [])),
                }
            )
        process = subprocess.Popen(
            [sys.executable or "python3", "-I", "-S", guardian.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            pass_fds=inherited,
        )
        ours.pop_all()  # Ranks.close() does it
    mark = os.urandom(12).hex()
    marks = ":".join([*filter(None, [shared.get(MARKS)]), mark])
    job = json.dumps(
        {
            "command": [_latin(os.fsencode(word)) for word in command],
            "environment": _texts({**shared, MARKS: marks}),
            "secret": secret,
            "grace_seconds": grace_seconds,
            "scratch": scratch,
            "mercy_seconds": mercy_seconds,
            "ranks": entries,
        }
    ).encode()
    killing = mercy_seconds + guardian.KILL_SECONDS
    ranks = LocalRanks(pipes, process, mark.encode(), (grace_seconds + killing, killing))
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it died at once; events() reports it
        process.stdin.write(f"{len(job)}\n".encode() + job)
        process.stdin.flush()
    return ranks
