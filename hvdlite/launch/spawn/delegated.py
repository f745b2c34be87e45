"""A job whose ranks another launcher starts: mpirun or srun. That launcher is the only process
under our guardian.

    hvdliterun ──► guardian ──► mpirun ──► ranks      here, and by its own means on other hosts
         ▲                        │
         └── ranks' output, separated by its tags; which rank failed, from its last messages

So a killed hvdliterun leaves no mpirun, and the end of mpirun ends its ranks everywhere. Launchers
differ in how they can be asked to end politely: see SignalPolicy below.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from hvdlite.launch.output import LineCutter, drain
from hvdlite.launch.spawn import guardian, local
from hvdlite.launch.spawn.events import (
    AllGone,
    Event,
    HostLost,
    Output,
    RankEnded,
    RankPipes,
    RankStarted,
    signal_name,
)
from hvdlite.launch.spawn.launcher_output import (
    LAUNCHER,
    CauseReader,
    Tag,
    Untangler,
    cause_of_shell,
)
from hvdlite.launch.spawn.other_launchers import ENDED, LauncherCommand

_READ_BYTES = 1 << 16
# This much of a launcher's own output is kept to learn which rank failed. The end matters.
_WORDS_BYTES = 1 << 16
_SLURM_SECONDS = 10.0


class SignalPolicy:
    """How the ranks of a launcher are asked to end, and which signals the launcher passes on to all
    of them. `pid`: the launcher's.

    This one is for a launcher that is not reliable: the guardian signals the launcher and all ranks
    on this host.
    """

    # The maximum time of terminate() and abandoned() themselves.
    asking_seconds = 0.0

    def __init__(self, *forwards: int) -> None:
        self.forwards = frozenset(forwards)

    def terminate(self, pid: int) -> bool:
        """Sends SIGTERM to all ranks, while the launcher stays and waits for their end. Returns
        False if the guardian has to do it."""
        return False

    def abandoned(self) -> None:
        """The launcher was killed. Sends SIGKILL to its processes elsewhere, if they do not end by
        themselves."""


class ByItself(SignalPolicy):
    """For a launcher that passes SIGTERM on and waits, as MPICH's does. The ranks must not get it
    twice."""

    def terminate(self, pid: int) -> bool:
        guardian.send([pid], signal.SIGTERM)
        return True


class AroundIt(SignalPolicy):
    """For a launcher that must not get the signal: hvdliterun signals the ranks of this host once,
    and none of the launcher's processes. Open MPI's launcher would end within two seconds with the
    ranks' output, and Intel's would signal the ranks twice."""

    _LAUNCHERS = "mpirun mpiexec mpiexec.hydra hydra_pmi_proxy hydra_bstrap_pr prted orted".split()

    def terminate(self, pid: int) -> bool:
        members = guardian.members(guardian.processes(), pid, set())
        ranks = [member for member in members if _command(member) not in self._LAUNCHERS]
        guardian.send(ranks, signal.SIGTERM)
        guardian.send(ranks, signal.SIGCONT)  # a stopped process would not get it
        return bool(ranks)


def _command(pid: int) -> str:
    """Returns the first 15 characters of a process's command."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


class ThroughSlurm(SignalPolicy):
    """For srun, which answers SIGTERM with SIGKILL for all ranks; scancel can send them SIGTERM.
    `name`: the step's."""

    asking_seconds = 2 * _SLURM_SECONDS

    def __init__(self, name: str, *forwards: int) -> None:
        super().__init__(*forwards)
        self._name = name

    def terminate(self, pid: int) -> bool:
        return self._send("TERM")

    def abandoned(self) -> None:
        self._send("KILL")

    def _send(self, name: str) -> bool:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            listed = _slurm("squeue", "--steps", "--noheader", "--format=%i %j")
            for line in listed.splitlines():
                step, _, called = line.partition(" ")
                if called.strip() == self._name:
                    _slurm("scancel", f"--signal={name}", step)
                    return True
        return False


def _slurm(*command: str) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SLURM_SECONDS,
        check=True,
    )
    return done.stdout


def _tells(line: bytes) -> bool:
    """Whether a line is for the user. The list of exit codes that we have asked Hydra for is not:
    our own last line says it better."""
    return not re.fullmatch(rb"\[mpiexec@[^]]*\] Exit codes: .*|\[[^]\s]+\] [\d,]+", line.strip())


@dataclass(frozen=True)
class DelegatedLauncher:
    """What differs between launchers. `name`: for messages; `tag`: of a stream; `causes` parses the
    launcher's output."""

    name: str
    launch: LauncherCommand
    tag: Callable[[str], Tag]
    causes: CauseReader
    policy: SignalPolicy


class DelegatedRanks:
    """The RankGroup of all ranks of a job. `launcher`: the process of `by`."""

    def __init__(
        self, by: DelegatedLauncher, launcher: local.LocalRanks, grace_seconds: float
    ) -> None:
        # The ranks' output comes as events, mixed as it is.
        self.pipes: Mapping[int, RankPipes] = {}
        self.status = 0  # the launcher's own output
        self.hosts: dict[int, str] = {}  # ranks that failed, if the launcher names them
        self._by = by
        self._launcher = launcher
        self._grace_seconds = grace_seconds
        self._pid: int | None = None
        self._words = b""
        self._sentences = LineCutter()
        self._endings: dict[int, LineCutter] = {}  # what the ranks' shells say, by rank
        self._told: set[int] = set()  # ranks whose shells have told how they have ended
        self._killed = False
        self._ending: threading.Thread | None = None
        self._patience: threading.Timer | None = None
        self._poll = select.epoll()
        self._poll.register(launcher.fileno(), select.EPOLLIN)
        (pipes,) = launcher.pipes.values()
        self._streams = {
            pipes.stdout: ("stdout", Untangler(by.tag("stdout"))),
            pipes.stderr: ("stderr", Untangler(by.tag("stderr"))),
        }
        for descriptor in self._streams:
            self._poll.register(descriptor, select.EPOLLIN)

    def fileno(self) -> int:
        return self._poll.fileno()

    def events(self) -> list[Event]:
        happened: list[Event] = []
        ready = [descriptor for descriptor, _ in self._poll.poll()]
        for descriptor in ready:
            if descriptor in self._streams:
                self._read(descriptor, happened)
        if self._launcher.fileno() in ready:
            for event in self._launcher.events():
                self._happened(event, happened)
        return happened

    def terminate(self) -> None:
        # Slurm's programs may take seconds, and the output must flow meanwhile.
        self._ending = threading.Thread(target=self._terminate, name="hvd-terminate", daemon=True)
        self._ending.start()

    def kill(self) -> None:
        self._launcher.kill()

    def forward(self, number: int) -> None:
        if number in self._by.policy.forwards:
            self._launcher.forward(number)

    def wake(self) -> None:
        self._launcher.wake()

    def ending_seconds(self, politely: bool) -> float:
        return self._launcher.ending_seconds(politely) + (
            self._by.policy.asking_seconds if politely else 0.0
        )

    def abandon(self) -> list[Event]:
        happened: list[Event] = []
        for event in self._launcher.abandon():
            self._happened(event, happened)
        return happened

    def close(self) -> None:
        if self._ending is not None:
            self._ending.join(2 * _SLURM_SECONDS)
        if self._patience is not None:
            self._patience.cancel()
        self._poll.close()
        self._launcher.close()

    def _terminate(self) -> None:
        if self._pid is not None and self._by.policy.terminate(self._pid):
            self._patience = threading.Timer(self._grace_seconds, self._launcher.kill)
            self._patience.daemon = True
            self._patience.start()
            return
        if self._killed:
            self._by.policy.abandoned()
        self._launcher.terminate()

    def _read(self, descriptor: int, happened: list[Event]) -> bool:
        """Returns True if there was something."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        stream, untangler = self._streams[descriptor]
        pieces = untangler.feed(data) if data else untangler.flush()
        if not data:
            self._poll.unregister(descriptor)
            del self._streams[descriptor]
        for rank, text in pieces:
            if rank == LAUNCHER:
                self._words = (self._words + text)[-_WORDS_BYTES:]
                # Hydra writes messages of its own to its stdout.
                happened += [
                    Output(LAUNCHER, "stderr", line)
                    for line in self._sentences.feed(text)
                    if _tells(line)
                ]
            elif rank >= ENDED:
                happened += self._ended(rank - ENDED, text)
            else:
                happened.append(Output(rank, stream, text))
        return bool(data)

    def _ended(self, rank: int, text: bytes) -> list[Event]:
        """A rank's shell has spoken."""
        lines = self._endings.setdefault(rank, LineCutter()).feed(text)
        causes = [cause_of_shell(rank, line.decode(errors="replace")) for line in lines]
        ends: list[Event] = [RankEnded(rank, each.code, each.signal) for each in causes if each]
        self._told.update([rank] if ends else [])
        return ends

    def _drain(self, happened: list[Event]) -> None:
        for descriptor in list(self._streams):
            drain(partial(self._read, descriptor, happened))

    def _happened(self, event: Event, happened: list[Event]) -> None:
        if isinstance(event, RankStarted):
            self._pid = event.pid
        elif isinstance(event, RankEnded):
            self._pid, self._killed = None, event.signal != 0
            self._drain(happened)
            happened += self._verdict(event)
        elif isinstance(event, AllGone):
            self._drain(happened)
            happened += [Output(LAUNCHER, "stderr", self._sentences.flush()), event]
        else:
            happened.append(event)

    def _verdict(self, ended: RankEnded) -> list[Event]:
        """The launcher has ended: which ranks have failed?"""
        self.status = ended.status
        if not ended.status:
            return []
        causes = [] if ended.signal else self._by.causes(self._words.decode(errors="replace"))
        named = [(cause.rank, cause) for cause in causes if cause.rank is not None]
        if named:
            self.hosts |= {rank: cause.host for rank, cause in named if cause.host}
            return [
                RankEnded(rank, cause.code, cause.signal)
                for rank, cause in named
                if rank not in self._told
            ]
        if self._told:
            return []
        for cause in causes:
            self.status = 128 + cause.signal
            how = f"a rank was killed by {signal_name(cause.signal)}"
            return [HostLost(f"{how}; {self._by.name} does not say which one")]
        how = f"exited with code {ended.code}"
        if ended.signal:
            how = f"was killed by {signal_name(ended.signal)}"
        more = "; its messages are above" if self._words else ""
        return [HostLost(f"{self._by.name} {how}{more}")]
