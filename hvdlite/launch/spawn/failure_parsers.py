"""Finds the failed rank in the output of another launcher, as far as it tells. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hvdlite.launch.spawn.mpi import Family

# The signals by which launchers end the survivors.
_ENDED_BY_LAUNCHER = (signal.SIGKILL, signal.SIGTERM)


@dataclass(frozen=True)
class Cause:
    """A rank that ended badly. `rank` is None if the launcher does not name one."""

    rank: int | None
    host: str | None = None
    code: int = 0
    signal: int = 0


# A parser of a launcher's whole output.
Reader = Callable[[str], Sequence[Cause]]


def open_mpi(words: str) -> list[Cause]:
    """Open MPI names the first failed rank."""
    text = " ".join(words.split())  # Open MPI breaks lines wherever they are full
    killed = re.search(
        r"process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+)", text
    )
    if killed:
        return [Cause(int(killed.group(1)), killed.group(2), signal=int(killed.group(3)))]
    exited = re.search(r"Process name: \[\S+,(\d+)\] Exit code: (\d+)", text)
    if exited:
        return [Cause(int(exited.group(1)), code=int(exited.group(2)))]
    return []


def hydra(words: str, family: Family) -> list[Cause]:
    """Hydra lists how all ranks ended, on each host in the order of the ranks. It kills the
    survivors of a crash itself."""
    listed = re.search(r"Exit codes: ((?:\[[^\]]+\] [\d,]+\s*)+)", words)
    if not listed:
        return []
    failed: list[Cause] = []
    rank = 0
    for host, numbers in re.findall(r"\[([^\]]+)\] ([\d,]+)", listed.group(1)):
        for number in numbers.strip(",").split(","):
            code, killed = _decode(int(number), family)
            if code or killed:
                failed.append(Cause(rank, host.removesuffix(":0"), code, killed))
            rank += 1
    if len(failed) > 1:
        first = [cause for cause in failed if cause.signal not in _ENDED_BY_LAUNCHER]
        if not first:
            return [Cause(None, signal=failed[0].signal)]
        failed = first
    return failed


def of_shell(rank: int, words: str) -> Cause | None:
    """What a rank's shell says (mpi.shell): a number. None: it says nothing of the kind."""
    if not words.strip().isdecimal():
        return None
    code, killed = _decode(int(words), Family.INTEL)
    return Cause(rank, code=code, signal=killed)


def _decode(number: int, family: Family) -> tuple[int, int]:
    """Returns (code, signal). MPICH prints the status of wait(), Intel MPI that of a shell."""
    if family is Family.INTEL:
        return (0, number - 128) if 128 < number < 128 + signal.NSIG else (number, 0)
    return number >> 8, number & 0x7F


# The words of strsignal(), as srun prints them.
_SIGNALS = {signal.strsignal(number): int(number) for number in signal.valid_signals()}


def slurm(words: str) -> list[Cause]:
    """srun reports each task, or several at once, until it ends the others."""
    found: list[Cause] = []
    for line in words.splitlines():
        if "Terminating StepId=" in line or "Force Terminated" in line:
            break
        match = re.match(r"srun: error: (\S+): tasks? (\d+)[\d,-]*: (.+)", line)
        if not match:
            continue
        host, rank, how = match.group(1), int(match.group(2)), match.group(3)
        exited = re.match(r"Exited with exit code (\d+)", how)
        killed = _SIGNALS.get(how.removesuffix(" (core dumped)"), 0)
        if exited:
            found.append(Cause(rank, host, code=int(exited.group(1))))
        elif killed:
            found.append(Cause(rank, host, signal=killed))
    return found
