"""The guardian: starts the ranks of one host, and ends every process of the job when the job ends.

    launcher ──pipe──► guardian ──fork/exec──► rank 0   (each rank leads a session of its own)
             ◄──pipe──          ──fork/exec──► rank 1 ──► whatever it starts

Why a process in between? A launcher that is killed with SIGKILL cannot end its ranks.
PR_SET_PDEATHSIG would end the ranks, but not what they started (`bash -c "python train.py"`).
A process group misses processes that move to another group (`timeout 60 python train.py`), and a
session misses processes that call setsid().

The guardian is small, and its session gets no signal of a terminal. It is a *subreaper*: a process
that loses its parent becomes its child. So it knows every process of the job until the last one is
gone. When the launcher dies, its pipe closes, and its pidfd becomes readable even if a stray child
of the launcher holds the pipe: the guardian kills everything at once. When the guardian dies,
PR_SET_PDEATHSIG ends the ranks. The launcher misses the guardian's farewell and kills the rest of
the ranks' sessions.

It runs as a script in a fresh interpreter (`python -I -S guardian.py`): the launcher may have
threads or be a notebook, which must not be forked without exec. It uses the standard library only.

If the guardian is killed, processes that have left the ranks' sessions become init's. The launcher
finds them by a mark in their environment. If the launcher is killed in the same instant, no process
finds them.

Protocol. Standard input has `<length>\\n<JSON>` and then single letters: `T` end politely
(SIGTERM, a grace period, SIGKILL), `K` kill, `1` and `2` send SIGUSR1 and SIGUSR2 to the ranks. End
of file means K. Standard output has lines: `started RANK PID`, `failed RANK ERRNO`,
`exited RANK CODE`, `killed RANK SIGNAL`, and last `done LEFT` when nothing of the job is left
(LEFT: how many processes could not be killed).
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

# Leftovers of ranks that all ended well, such as Python's resource tracker, get this long to end by
# themselves.
LINGER_SECONDS = 0.5
# Horovod's value: programs write checkpoints in SIGTERM handlers.
GRACE_SECONDS = 5.0
# A batch system's warnings, which programs answer with a checkpoint. They would kill processes that
# a rank has started and that did not ask for them.
FORWARDED = {signal.SIGUSR1: b"1", signal.SIGUSR2: b"2"}
# Between launcher and agent: SIGQUIT asks what the ranks do. It never comes here (see LocalRanks).
ASKING = {signal.SIGQUIT: b"Q"}
SIGNALS = {letter: number for number, letter in (FORWARDED | ASKING).items()}
# SIGKILL takes effect at once, except for a process that waits for a disk or a network file system.
KILL_SECONDS = 5.0
_SCAN_SECONDS = 0.02

# Signals that Python (the first two) and the guardian ignore.
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


# --- the process table


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    session: int
    stopped: bool = False  # by a signal or a debugger


def processes() -> list[Process]:
    """Returns all living processes in /proc; zombies are not alive."""
    found: list[Process] = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # pid (command) state parent group session ...; the command may contain anything,
                # even ")".
                state, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):
            continue  # it ended while we read
        if state not in (b"Z", b"X"):
            stopped = state in (b"T", b"t")
            found.append(Process(int(name), int(parent), int(session), stopped))
    return found


def members(table: Iterable[Process], root: int | None, sessions: set[int]) -> list[int]:
    """Returns the job: descendants of `root`, members of `sessions` and their descendants. Pure."""
    children: dict[int, list[int]] = {}
    found: list[int] = []
    frontier = [] if root is None else [root]
    for process in table:
        children.setdefault(process.parent, []).append(process.pid)
        if process.session in sessions:
            frontier.append(process.pid)
    seen = set() if root is None else {root}
    found += [pid for pid in frontier if pid not in seen]
    seen.update(found)
    while frontier:
        for child in children.get(frontier.pop(), ()):
            if child not in seen:
                seen.add(child)
                found.append(child)
                frontier.append(child)
    return found


def send(pids: Iterable[int], signal_number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):  # gone, or it belongs to another user now (setuid)
            os.kill(pid, signal_number)


def marked(table: Iterable[Process], mark: bytes) -> list[int]:
    """Returns processes with these bytes in their environment; none of another user's."""
    found: list[int] = []
    for process in table:
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/environ", "rb") as file:
            if mark in file.read():
                found.append(process.pid)
    return found


def kill_all(
    root: int | None, sessions: set[int], mark: bytes, seconds: float = KILL_SECONDS
) -> int:
    """For the launcher, without a guardian's help: sends SIGKILL to all descendants of `root`, to
    members of these sessions and to processes with the mark, until none is left. Returns how many
    are left."""
    deadline = time.monotonic() + seconds
    while True:
        table = processes()
        left = set(members(table, root, sessions)).union(marked(table, mark))
        if not left or time.monotonic() > deadline:
            break
        send(left, signal.SIGKILL)
        time.sleep(_SCAN_SECONDS)
    return len(left)


# --- the guardian


@dataclass
class GuardedRank:
    rank: int
    environment: dict[bytes, bytes]
    stdout: int
    stderr: int
    processors: list[int]  # the processors that it is bound to; none: it is not bound


@dataclass
class GuardState:
    ranks: dict[int, int] = field(default_factory=dict)  # pid -> rank, of running ranks
    sessions: set[int] = field(default_factory=set)
    grace_seconds: float = GRACE_SECONDS
    mercy_seconds: float = 0.0
    mercy_until: float = 0.0
    phase: str = "running"  # -> lingering | terminating -> killing
    deadline: float = float("inf")


def _prctl(option: int, argument: int) -> None:
    # Without ctypes or prctl, the guardian still finds the members of the ranks' sessions.
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(argument), 0, 0, 0)


def _report(*lines: str) -> None:
    with contextlib.suppress(OSError):  # the launcher is dead; the loop notices it by its pipe
        os.write(1, "".join(line + "\n" for line in lines).encode())


def read_job(descriptor: int = 0) -> dict[str, Any] | None:
    """`<length>\n<JSON>`; None when the input ends before."""
    import json

    data = b""
    while b"\n" not in data:
        chunk = os.read(descriptor, 1)
        if not chunk:
            return None
        data += chunk
    length, _, rest = data.partition(b"\n")
    while len(rest) < int(length):
        chunk = os.read(descriptor, int(length) - len(rest))
        if not chunk:
            return None
        rest += chunk
    job = json.loads(rest)
    return job if isinstance(job, dict) else None


def _start(rank: GuardedRank, command: list[bytes], secret: int | None) -> tuple[int, int]:
    """Forks and executes; returns (pid, 0) or (0, errno)."""
    guardian = os.getpid()
    try:
        failed, tell = os.pipe()  # a successful exec closes it
        pid = os.fork()
    except OSError as error:
        return 0, error.errno or errno.EAGAIN
    if pid == 0:
        number = errno.EINVAL
        try:
            os.setsid()
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guardian:
                os._exit(1)  # it died before prctl could take effect
            for ignored in _IGNORED:  # exec would pass that on
                signal.signal(ignored, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(rank.stdout, 1)
            os.dup2(rank.stderr, 2)
            with contextlib.suppress(OSError):  # one of them is no longer available
                if rank.processors:
                    os.sched_setaffinity(0, rank.processors)
            if secret is not None:
                os.set_inheritable(secret, True)
            os.execvpe(command[0], command, rank.environment)
        except OSError as error:
            number = error.errno or number
        finally:
            os.write(tell, str(number).encode())
            os._exit(127)
    os.close(tell)
    answer = os.read(failed, 16)
    os.close(failed)
    if answer:
        os.waitpid(pid, 0)
        return 0, int(answer)
    return pid, 0


def _left(state: GuardState) -> list[int]:
    return members(processes(), os.getpid(), state.sessions)


def _enter(state: GuardState, phase: str) -> None:
    order = ("running", "lingering", "terminating", "killing")
    if order.index(phase) <= order.index(state.phase):
        return
    state.phase = phase
    now = time.monotonic()
    if phase == "lingering":
        state.deadline = now + LINGER_SECONDS
    elif phase == "terminating":
        left = _left(state)
        send(left, signal.SIGTERM)
        send(left, signal.SIGCONT)  # a stopped process would not get it
        state.deadline = now + state.grace_seconds
    else:
        # If another launcher among the ranks is killed, it cannot end the processes that it has
        # started elsewhere.
        if state.mercy_seconds:
            send(state.ranks, signal.SIGTERM)
        state.mercy_until = now + state.mercy_seconds
        state.deadline = state.mercy_until + KILL_SECONDS


def _reap(state: GuardState) -> bool:
    """Collects and reports the dead; returns False if no child is left."""
    lines: list[str] = []
    pid = -1
    while pid != 0:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        rank = state.ranks.pop(pid, None)
        if rank is not None and os.WIFSIGNALED(status):
            lines.append(f"killed {rank} {os.WTERMSIG(status)}")
        elif rank is not None:
            lines.append(f"exited {rank} {os.WEXITSTATUS(status)}")
    # In one write, so processes that died at the same time are judged together.
    if lines:
        _report(*lines)
    return pid == 0


def _watch_launcher() -> list[int]:
    try:
        return [os.pidfd_open(os.getppid())]
    except (AttributeError, OSError):
        return []  # an old kernel: the pipe alone has to suffice


def _guard(state: GuardState, wake: int) -> int:
    """Runs until nothing is left; returns how many processes resisted."""
    commands, launcher = [0], _watch_launcher()
    while True:
        if not _reap(state):
            left = _left(state)
            if not left:
                return 0
        if not state.ranks:
            _enter(state, "lingering")
        if state.phase == "killing":
            left = _left(state)
            if time.monotonic() > state.deadline:
                return len(left)
            if time.monotonic() >= state.mercy_until:
                send(left, signal.SIGKILL)
        pause = _SCAN_SECONDS if state.phase == "killing" else 0.5
        pause = min(pause, max(0.0, state.deadline - time.monotonic()))
        if state.phase == "running":
            ready, _, _ = select.select([*commands, *launcher, wake], [], [])
        else:
            ready, _, _ = select.select([*commands, *launcher, wake], [], [], pause)
        if wake in ready and signal.SIGTERM in os.read(wake, 4096):
            _enter(state, "terminating")
        if launcher and launcher[0] in ready:
            launcher, commands = [], []
            _enter(state, "killing")
        if commands and commands[0] in ready:
            letter = os.read(0, 1)
            if letter in SIGNALS:
                send(state.ranks, SIGNALS[letter])
            elif letter == b"T":
                _enter(state, "terminating")
            else:
                commands = commands if letter else []
                _enter(state, "killing")
        if time.monotonic() >= state.deadline and state.phase in ("lingering", "terminating"):
            _enter(state, "terminating" if state.phase == "lingering" else "killing")


def main() -> None:
    wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    job = read_job()
    if job is None:
        return
    # Texts are bytes decoded as latin-1, because the environment need not be UTF-8.
    command = [word.encode("latin-1") for word in job["command"]]
    shared = _bytes(job["environment"])
    secret: int | None = job["secret"]
    ranks = [
        GuardedRank(
            entry["rank"],
            shared | _bytes(entry["environment"]),
            entry["stdout"],
            entry["stderr"],
            entry["processors"],
        )
        for entry in job["ranks"]
    ]
    descriptors = [d for rank in ranks for d in (rank.stdout, rank.stderr)]
    for descriptor in descriptors + ([] if secret is None else [secret]):
        os.set_inheritable(descriptor, False)
    state = GuardState(grace_seconds=job["grace_seconds"], mercy_seconds=job["mercy_seconds"])
    for rank in ranks:
        pid, error = _start(rank, command, secret)
        if error:
            _report(f"failed {rank.rank} {error}")
            _enter(state, "killing")
            break
        state.ranks[pid] = rank.rank
        state.sessions.add(pid)
        _report(f"started {rank.rank} {pid}")
    for descriptor in descriptors:
        os.close(descriptor)  # otherwise the pipes would never end
    left = _guard(state, wake)
    if job["scratch"]:
        import shutil

        shutil.rmtree(job["scratch"], ignore_errors=True)
    _report(f"done {left}")


def _bytes(texts: object) -> dict[bytes, bytes]:
    assert isinstance(texts, dict)
    return {name.encode("latin-1"): value.encode("latin-1") for name, value in texts.items()}


if __name__ == "__main__":
    main()
