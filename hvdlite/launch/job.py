"""One job from its secret to its last line: the steps in their order."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hvdlite.launch import output, plan, progress, screen, secret, watch
from hvdlite.launch.companion import Companion
from hvdlite.launch.screen import Screen
from hvdlite.launch.spawn import guardian, local, ssh
from hvdlite.launch.spawn.events import Group
from hvdlite.launch.spawn.order import Order
from hvdlite.rendezvous import addresses
from hvdlite.rendezvous.server import StoreServer

# How long an agent looks for the store: the store is there already, so this is about the network only.
_PATIENCE = 10.0


@dataclass(frozen=True)
class Options:
    output_directory: str | None = None
    timestamps: bool = False
    verbose: bool = False
    monitor: bool = False
    start_timeout: float = 30.0
    grace_seconds: float = guardian.GRACE_SECONDS
    interfaces: Sequence[str] = ()
    ssh: ssh.Options = field(default_factory=ssh.Options)


class Console:
    """Where output goes: the launcher's own stdout and stderr, or what takes their place."""

    def __init__(self, stdout: output.Writer, stderr: output.Writer, timestamps: bool) -> None:
        self._writers = stdout, stderr
        self._screen = stderr if isinstance(stderr, Screen) else None
        self.stdout = output.Sink(stdout, timestamps)
        self.stderr = output.Sink(stderr, timestamps)

    def say(self, text: str) -> None:
        """A line, or several, of the launcher itself."""
        for line in text.splitlines():
            self.stderr.say(line if line.startswith("hvdliterun: ") else f"hvdliterun: {line}")

    def show_phases(self, phases: Mapping[str, str]) -> None:
        """On a terminal, until called anew: how far each host is. With none all traces go."""
        if self._screen is not None:
            if phases:
                self._screen.show(progress.lines(phases, self._screen.size()[0] - 1))
            else:
                self._screen.end()

    def flush(self) -> None:
        """Wait as long as the reader takes, as every program does."""
        for sink in (self.stdout, self.stderr):
            while not sink.wait_flushed(1.0):
                pass

    def close(self) -> None:
        """Ends its threads. What is not written yet still will be."""
        for writer in self._writers:
            writer.close()


def run(slots: Sequence[plan.Slot], command: Sequence[str], knobs: Mapping[str, str], options: Options) -> int:
    """Run the job to its end; returns the exit status. Main thread only."""
    logging.basicConfig(format="hvdliterun: %(message)s")  # what the store says of strangers
    verdict = watch.Verdict({slot.rank: slot.host for slot in slots})
    console, shown = open_console(verdict.hosts, options)
    try:
        supervise(slots, command, knobs, options, console, verdict, shown)
        status, sentence = verdict.status(), verdict.sentence(command)
    except (OSError, ValueError) as error:
        status, sentence = 1, why_not(error)
    except KeyboardInterrupt:  # before or after the watch, which has its own handlers
        status, sentence = 128 + signal.SIGINT, "ended by SIGINT; all ranks were ended."
    shown.end()  # it has not where an exception has come
    console.say(sentence)
    with contextlib.suppress(KeyboardInterrupt):
        console.flush()
    return status


def why_not(error: Exception) -> str:
    """The launcher's last line where a job cannot start."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if error.errno == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too many open files: {limit} are allowed here, and every rank needs 4. `ulimit -n` raises that."
    return f"cannot open {error.filename}: {error.strerror}." if error.filename is not None else f"{error.strerror}."


def open_console(hosts: Mapping[int, str], options: Options) -> tuple[Console, Companion]:
    """The console of the command line, and what shows the ranks on it if that is asked for."""
    far = any(not is_here(host) for host in set(hosts.values()))
    if (far or options.monitor) and screen.possible(os.environ):
        terminal = Screen(2)
        console = Console(terminal if os.isatty(1) else output.Writer(1), terminal, options.timestamps)
    else:
        terminal, console = None, Console(output.Writer(1), output.Writer(2), options.timestamps)
    if not options.monitor:
        return console, Companion()
    from hvdlite.launch import board, monitor

    ranks = board.Board(hosts)
    if terminal is None:
        return console, monitor.Monitor(ranks, monitor.Lines(ranks, console.say))
    return console, monitor.Monitor(ranks, monitor.Table(ranks, terminal, colours="NO_COLOR" not in os.environ))


def supervise(
    slots: Sequence[plan.Slot],
    command: Sequence[str],
    knobs: Mapping[str, str],
    options: Options,
    console: Console,
    verdict: watch.Verdict,
    companion: Companion | None = None,
) -> None:
    """From the secret until nothing of the job is left, by whatever way this is left. OSError, ValueError: it cannot start."""
    companion = companion or Companion()

    def log(text: str) -> None:
        if options.verbose:
            console.say(text)

    hosts = list(dict.fromkeys(slot.host for slot in slots))
    far = [host for host in hosts if not is_here(host)]
    streams = open_streams(slots, console, options)
    text = os.environ.get(secret.TEXT_VARIABLE)
    key = secret.parse(text) if text else secret.create()
    with contextlib.ExitStack() as stack:
        for stream in streams.values():
            stack.callback(stream.end)
        # When all ranks are on this host, nothing listens anywhere but on the loopback.
        server = stack.enter_context(serve_everywhere(key) if far else StoreServer(key, host="127.0.0.1"))
        port = server.address[1]
        log(f"the store is at {plan.join_address(server.address)}")
        companion.begin(server, key)
        shared = plan.job_environment(os.environ, knobs)
        if text:
            shared[secret.TEXT_VARIABLE] = text
        own = {slot.rank: plan.rank_environment(slot, several_hosts=len(hosts) > 1) for slot in slots}
        groups: dict[str, Group] = {}
        if far:
            common = Order(
                secret=key.hex(),
                port=port,
                addresses=addresses.of_this_machine(options.interfaces),
                addresses_chosen=bool(options.interfaces),
                patience=min(_PATIENCE, options.start_timeout / 2),
                directory=os.getcwd(),
                command=list(command),
                environment=plan.travelling(shared),
                ranks={},
                grace_seconds=options.grace_seconds,
                silence_seconds=options.ssh.silence_seconds,
            )
            orders = {host: replace(common, ranks=_of(host, slots, own)) for host in far}
            remotes = ssh.contact(
                orders, options.ssh, os.environ, options.start_timeout, console.say, log, console.show_phases
            )
            stack.callback(ssh.close, remotes)
            groups |= {remote.host: remote for remote in remotes}
        near = {slot.rank: own[slot.rank] for slot in slots if slot.host not in far}
        if near:
            groups[next(host for host in hosts if host not in far)] = _start_here(
                command, shared | plan.meeting_environment(("127.0.0.1", port)), near, key, options, stack
            )
        for group in groups.values():
            if isinstance(group, ssh.Remote):
                group.start()
        watch.watch(groups, streams, verdict, log, companion.tick)
        companion.end()


def _of(host: str, slots: Sequence[plan.Slot], own: Mapping[int, Mapping[str, str]]) -> Mapping[int, Mapping[str, str]]:
    return {slot.rank: own[slot.rank] for slot in slots if slot.host == host}


def _start_here(
    command: Sequence[str],
    shared: Mapping[str, str],
    own: Mapping[int, Mapping[str, str]],
    key: bytes,
    options: Options,
    stack: contextlib.ExitStack,
) -> local.Ranks:
    """The ranks of this host, and on `stack` what ends them."""
    descriptor = None
    if secret.TEXT_VARIABLE not in shared:
        descriptor = secret.store(key)
        stack.callback(os.close, descriptor)
        shared = {**shared, secret.DESCRIPTOR_VARIABLE: str(descriptor)}
    ranks = local.start(command, shared, own, descriptor, options.grace_seconds)
    stack.callback(ranks.close)
    return ranks


def is_here(host: str) -> bool:
    """Whether ranks for that host are started without going anywhere."""
    # Whoever names a user wants ssh.
    return "@" not in host and addresses.is_of_this_machine(host.strip("[]"))


def serve_everywhere(key: bytes) -> StoreServer:
    """A store that other hosts reach."""
    try:
        return StoreServer(key, host="::")  # IPv4 as well
    except OSError:
        return StoreServer(key, host="0.0.0.0")  # a kernel without IPv6


def open_streams(
    slots: Sequence[plan.Slot], console: Console, options: Options
) -> dict[tuple[int, str], output.Stream]:
    """By rank and name, with the files for --output-filename. To be called first, so that a bad path starts nothing; whoever calls
    it ends them all."""
    found: dict[tuple[int, str], output.Stream] = {}
    for slot in slots:
        for name, sink in (("stdout", console.stdout), ("stderr", console.stderr)):
            copy = None
            if options.output_directory:
                copy = output.open_copy(options.output_directory, slot.rank, len(slots), name)
            found[slot.rank, name] = output.Stream(slot.rank, name, sink, copy)
    return found
