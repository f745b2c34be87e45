"""Starts ranks on other hosts: one ssh, or in a Slurm allocation one srun, and one agent (see
agent.py) per host.

ssh is the user's own, with the user's configuration and keys. It never asks (BatchMode), and it
checks host keys as the user has set. It notices if the other side is silent for longer than a rank
may be. A host goes through these phases, and an error names the phase:

    connecting ──► starting Python ──► looking for the store ──► ready ──► running
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hvdlite.launch.spawn import agent_protocol, events, guardian, other_launchers
from hvdlite.launch.spawn.agent_protocol import AgentOrder, EndOne, StartOne
from hvdlite.launch.spawn.events import AllGone, Event, HostLost, Output, RankPipes, Unanswered
from hvdlite.launch.spawn.silent_hosts import ssh_options

# The number of handshakes at once. More would only make each of them slower.
_AT_ONCE = 64
_READ_BYTES = 1 << 18
_MOST_WORDS = 4096
# The far shell prints this first: the login has succeeded.
_LOGGED_IN = "hvdlite logged in"
# These failures may pass in a moment, if hosts come late.
_PASSING = re.compile(
    r"Could not resolve hostname|Connection refused|timed out|No route to host|Connection reset"
)
_PAUSE = 1.0
# Time for a slow or distant agent, in addition to its own wait for its guardian.
_MARGIN_SECONDS = 5.0
# Variables that the far interpreter needs to start at all; the others go over the channel.
_NEEDED_BEFORE = ("PYTHONPATH", "LD_LIBRARY_PATH")

Log = Callable[[str], None]


@dataclass(frozen=True)
class SshOptions:
    port: int | None = None
    identity_file: str | None = None
    extra: Sequence[str] = ()
    connect_timeout: float = 30.0
    silence_seconds: float = 10.0  # 0: a silent host is never given up
    # as on Kubernetes, where a pod's name exists some seconds after the pod
    hosts_may_come_late: bool = False
    program: str = "ssh"
    in_slurm: bool = False  # by srun

    @property
    def called(self) -> str:
        return "srun" if self.in_slurm else self.program


def command_line(
    host: str, options: SshOptions, environ: Mapping[str, str], interpreter: str
) -> list[str]:
    """Returns the command line of ssh, or srun. Pure. The agent runs with the same interpreter as
    the launcher."""
    variables = [f"{name}={environ[name]}" for name in _NEEDED_BEFORE if environ.get(name)]
    agent = [*(["env", *variables] if variables else []), interpreter, "-m", "hvdlite.launch.agent"]
    # Words that every shell understands in the same way, including csh and fish.
    command = f"echo {_LOGGED_IN}; exec {shlex.join(agent)}"
    if options.in_slurm:
        return other_launchers.srun_agent(host, ["sh", "-c", command])
    words = [options.program, "-T", "-x", "-e", "none"]
    for option in (
        "BatchMode=yes",
        f"ConnectTimeout={max(1, round(options.connect_timeout))}",
        *ssh_options(options.silence_seconds),
    ):
        words += ["-o", option]
    if options.port is not None:
        words += ["-p", str(options.port)]
    if options.identity_file:
        words += ["-i", options.identity_file]
    return [*words, *options.extra, "--", re.sub(r"\[(.*)\]$", r"\1", host), command]


@dataclass
class RemoteRanks:
    """The RankGroup of another host's ranks. It has no pipes: the ranks' output comes as Output."""

    host: str
    process: subprocess.Popen[bytes]
    order: AgentOrder
    interpreter: str
    say: Log
    by: str = "ssh"  # or srun
    phase: str = "connecting"
    address: str = ""  # of the store, as seen from the host
    problem: str = ""  # why it cannot take part
    pipes: Mapping[int, RankPipes] = field(default_factory=dict)
    _decoder: agent_protocol.Decoder = field(default_factory=agent_protocol.Decoder)
    _words: bytes = b""
    _both: selectors.EpollSelector = field(default_factory=selectors.EpollSelector)
    _ended: bool = False

    def __post_init__(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._both.register(stream, selectors.EVENT_READ)

    def fileno(self) -> int:
        return self._both.fileno()

    def events(self) -> list[Event]:
        found: list[Event] = []
        for key, _ in self._both.select(0):
            with contextlib.suppress(BlockingIOError):
                data = os.read(key.fd, _READ_BYTES)
                if key.fileobj is self.process.stderr:
                    self._heard(data, key.fileobj)
                elif data:
                    found += self._understood(data)
                else:
                    found += self._channel_ended()
        return found

    def start(self) -> None:
        """Starts the host's ranks. Call it once, in the phase `ready`."""
        self.phase = "running"
        self._send(agent_protocol.START)

    def start_one(self, rank: int, own: Mapping[str, str]) -> None:
        """Starts a rank of an elastic job. Its output comes as Output; RankGone is its last
        event."""
        self._send(StartOne(rank, own).encode())

    def end_one(self, rank: int, politely: bool) -> None:
        self._send(EndOne(rank, politely).encode())

    def inquire(self, letter: bytes) -> None:
        """Of an elastic job's agent: ASK or LOOK of agent_protocol."""
        self._send(letter)

    def terminate(self) -> None:
        self._send(b"T")

    def kill(self) -> None:
        self._send(b"K")

    def forward(self, number: int) -> None:
        self._send((guardian.FORWARDED | guardian.ASKING)[signal.Signals(number)])

    def wake(self) -> None:
        pass  # the agent does it there

    def ending_seconds(self, politely: bool) -> float:
        grace = self.order.grace_seconds if politely else 0.0
        return grace + guardian.KILL_SECONDS + _MARGIN_SECONDS

    def abandon(self) -> list[Event]:
        self._kill()
        return [Unanswered(killed=False), AllGone()]

    def close(self) -> None:
        close([self])

    def let_go(self) -> None:
        """The agent reads the end of its input and kills what it has started; returns at once."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def wait(self, deadline: float) -> None:
        """Waits until ssh is gone, or has to be killed."""
        try:
            self.process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._kill()
            self.process.wait()
        self._both.close()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _kill(self) -> None:
        """Kills ssh, which leads a group of its own, with its children: a ProxyCommand would
        continue to try."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it is dead; events() reports it
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def _heard(self, data: bytes, stream: Any) -> None:
        """Handles output of ssh or of the agent; agent_protocol has the ranks' own output."""
        if not data:
            self._both.unregister(stream)
        self._words = (self._words + data)[-_MOST_WORDS:]
        if self._decoder.begun:
            *lines, self._words = self._words.split(b"\n")
            for line in lines:
                text = line.decode(errors="backslashreplace").strip()
                if other_launchers.SRUN_NEEDLESS not in text:
                    self.say(f"host {self.host}: {text}")

    def _understood(self, data: bytes) -> list[Event]:
        found: list[Event] = []
        try:
            arrived = self._decoder.feed(data)
        except ValueError as error:
            self._kill()
            return [HostLost(str(error))]
        if self.phase == "connecting" and _LOGGED_IN.encode() in self._decoder.noise:
            self.phase = "starting Python"
        if self._decoder.begun and self.phase in ("connecting", "starting Python"):
            self.phase = "looking for the store"
            self._send(self.order.encode())
        for frame in arrived:
            if frame.kind == agent_protocol.READY:
                self.phase, self.address = "ready", frame.payload.decode()
            elif frame.kind == agent_protocol.REFUSED:
                why = frame.payload.decode(errors="backslashreplace")
                self.problem = f"host {self.host}: {why}"
                if self.phase == "running":
                    found.append(HostLost(why))
            elif frame.kind == agent_protocol.EVENT:
                found.append(events.parse(frame.payload.decode()))
                self._ended = self._ended or isinstance(found[-1], AllGone)
            else:
                stream = "stdout" if frame.kind == agent_protocol.STDOUT else "stderr"
                found.append(Output(frame.rank, stream, frame.payload))
        return found

    def _channel_ended(self) -> list[Event]:
        assert self.process.stdout is not None
        self._both.unregister(self.process.stdout)
        if self._ended:
            return []
        try:
            status = self.process.wait(timeout=guardian.KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            status = self.process.wait()
        assert self.process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            self._words += self.process.stderr.read() or b""
        words = self._words.decode(errors="backslashreplace")
        noise = self._decoder.noise.decode(errors="backslashreplace")
        if self.phase != "running":
            self.problem = self.problem or explained(
                self.host, status, words or noise.replace(_LOGGED_IN, ""), self.interpreter, self.by
            )
            return [AllGone()]
        said = words.strip().splitlines()[-1:]
        return [HostLost("; ".join([f"{self.by} {_how(status)}", *said])), AllGone()]


def contact(
    orders: Mapping[str, AgentOrder],
    options: SshOptions,
    environ: Mapping[str, str],
    timeout: float,
    say: Log,
    log: Log,
    show: Callable[[Mapping[str, str]], None] = lambda phases: None,
    cancel: int | None = None,
) -> list[RemoteRanks]:
    """Returns agents on all hosts, each of which has found the store. ConnectionError has a line
    for every host that has not.

    `show` is called with the phase of each host after every event, and with nothing at the end.
    `cancel`: a descriptor; when it is readable, nothing is waited for any more.
    """
    interpreter = sys.executable or "python3"
    deadline = time.monotonic() + timeout
    remotes: dict[str, RemoteRanks] = {}
    left = deque(orders)
    again: deque[tuple[float, str]] = deque()  # when to call which host again
    try:
        with selectors.DefaultSelector() as selector:
            if cancel is not None:
                selector.register(cancel, selectors.EVENT_READ)
            while True:
                now = time.monotonic()
                pending = [remote for remote in remotes.values() if remote.phase != "ready"]
                while again and again[0][0] <= now:
                    left.append(again.popleft()[1])
                while left and len(pending) < _AT_ONCE:
                    host = left.popleft()
                    remotes[host] = _call(host, orders[host], options, environ, interpreter, say)
                    log(f"host {host}: {remotes[host].phase}")
                    pending.append(remotes[host])
                    selector.register(remotes[host], selectors.EVENT_READ)
                phases = {host: remote.phase for host, remote in remotes.items()}
                show(dict.fromkeys(orders, "waiting") | phases)
                if not pending and not again:
                    return list(remotes.values())
                if now >= deadline or any(remote.problem for remote in pending):
                    problems = [remote.problem for remote in pending if remote.problem]
                    if now >= deadline:
                        late = {each.host: each.phase for each in pending if not each.problem}
                        uncalled = [*left, *(host for _, host in again)]
                        problems += late_hosts(late, uncalled, timeout)
                    raise ConnectionError("\n".join(problems))
                until = min(deadline, again[0][0]) if again else deadline
                for key, _ in selector.select(until - now):
                    if key.fd == cancel:
                        raise ConnectionError("the hosts are not needed any more")
                    remote = cast(RemoteRanks, key.fileobj)
                    _listen(remote, selector, log)
                    if options.hosts_may_come_late and _PASSING.search(remote.problem):
                        log(f"{remote.problem}; trying again")
                        remotes.pop(remote.host).close()
                        again.append((time.monotonic() + _PAUSE, remote.host))
    except BaseException:
        close(remotes.values())
        raise
    finally:
        show({})


def _call(
    host: str,
    order: AgentOrder,
    options: SshOptions,
    environ: Mapping[str, str],
    interpreter: str,
    say: Log,
) -> RemoteRanks:
    try:
        process = subprocess.Popen(
            command_line(host, options, environ, interpreter),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ConnectionError(
            f"cannot start {options.called!r}: {error.strerror}. Is "
            f"{'srun' if options.in_slurm else 'an ssh client'} installed?"
        ) from None
    return RemoteRanks(host, process, order, interpreter, say, options.called)


def _listen(remote: RemoteRanks, selector: selectors.BaseSelector, log: Log) -> None:
    before = remote.phase
    remote.events()
    if remote.phase != before:
        where = f", the store is at {remote.address}" if remote.address else ""
        log(f"host {remote.host}: {remote.phase}{where}")
    if remote.phase == "ready" or remote.problem:
        selector.unregister(remote)


def close(remotes: Iterable[RemoteRanks]) -> None:
    """Closes all at once: a host that does not answer must not keep the others alive."""
    remotes = list(remotes)
    for remote in remotes:
        remote.let_go()
    # An agent may have to kill ranks; if none has answered, there is nothing to wait for.
    begun = any(remote.phase in ("ready", "running") for remote in remotes)
    deadline = time.monotonic() + (3 * guardian.KILL_SECONDS if begun else 0.2)
    for remote in remotes:
        remote.wait(deadline)


# The first that matches. `{host}` and `{python}` are filled in.
_ADVICE = (
    (r"Host key verification failed|REMOTE HOST IDENTIFICATION",
     "its host key is unknown here, or has changed: run `ssh {host}` once by hand"),
    (r"Permission denied",
     "it refused the login: `ssh {host} true` has to work without a password (ssh-copy-id, "
     "--ssh-identity-file)"),
    (r"Could not resolve hostname|Name or service not known",
     "no such host: check -H or the hostfile"),
    (r"Connection refused", "no ssh server listens there: is sshd running, is --ssh-port right?"),
    (r"timed out|No route to host|Network is unreachable",
     "it does not answer: is it up, is the name right, does a firewall stand between?"),
    (r"Requested node configuration is not available|Invalid node name",
     "it is no node of this Slurm allocation: check -H or the discovery script, or reach hosts by "
     "ssh (--gloo)"),
    (r"allocation .*has been revoked|Job/step already completing|Invalid job id",
     "the Slurm allocation is over"),
    (r"No module named '?hvdlite", "hvdlite is not installed there for {python}"),
)  # fmt: skip


def explained(host: str, status: int, words: str, interpreter: str, by: str = "ssh") -> str:
    """Says what went wrong, and what to do. `words`: the output of `by` and of the far side."""
    said = words.strip().splitlines()[-1].strip() if words.strip() else ""
    for pattern, advice in _ADVICE:
        if re.search(pattern, words):
            return f"host {host}: {advice.format(host=host, python=interpreter)} ({said})"
    if status == 127 or re.search(r"not found|No such file", words):
        return (
            f"host {host}: there is no {interpreter}: the same Python must be at the same place "
            f"on every host ({said})"
        )
    more = f" ({said})" if said else ""
    return f"host {host}: {by} {_how(status)} before the agent answered{more}"


def _how(status: int) -> str:
    return f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"


def late_hosts(phases: Mapping[str, str], left: Iterable[str], timeout: float) -> list[str]:
    """Says which hosts have not answered in time: by phase, and those that were not called."""
    said = {host: f"still {phase}" for host, phase in phases.items()}
    said |= dict.fromkeys(left, "not reached")
    return [
        f"host {host}: {how} after {timeout:g} s (--start-timeout)" for host, how in said.items()
    ]
