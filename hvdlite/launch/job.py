"""What every job has, however its ranks are started: options, a console, the store where the ranks
meet, and a last line.

    job = of_the_command_line(hosts, slots, command, knobs, options, Verdict(...))
    with job.concluded() as end, job.opened() as opened:
        ...                          # starts the ranks
        job.watch(groups, opened.streams, signals)
    return end.status

`direct` starts ranks itself, and `delegate` lets another launcher do so.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hvdlite.launch import console, output, plan, secret, watch
from hvdlite.launch.attach.attachable import Attachable
from hvdlite.launch.monitor import WANTED, Outlets
from hvdlite.launch.observers import Contained, JobObserver, Observers
from hvdlite.launch.spawn import guardian, ssh
from hvdlite.launch.spawn.events import RankGroup
from hvdlite.launch.verdict import Verdict, with_hint
from hvdlite.launch.watch import Signals
from hvdlite.rendezvous import addresses
from hvdlite.rendezvous.server import StoreServer, Watched

if TYPE_CHECKING:
    from hvdlite.launch.collapse import Collapse


@dataclass(frozen=True)
class JobOptions:
    output_directory: str | None = None
    timestamps: bool = False
    verbose: bool = False
    monitor: bool = False
    outlets: Outlets = Outlets()
    collapse: bool = False
    torch_env: bool = False
    bind: str = "auto"  # of machine.BINDINGS
    exits: bool = False  # whether the process ends with the job
    hears: Callable[[str], object] = lambda _: None  # is called with the launcher's last line
    start_timeout: float = 30.0
    grace_seconds: float = guardian.GRACE_SECONDS
    interfaces: Sequence[str] = ()
    ssh: ssh.SshOptions = field(default_factory=ssh.SshOptions)


class NotRun(Exception):
    """Nothing runs. The text is the launcher's last line."""


@dataclass
class Conclusion:
    """How the launcher ends."""

    status: int = 1


@dataclass(frozen=True)
class OpenedJob:
    """A job before its first rank is started."""

    streams: dict[tuple[int, str], output.Stream]  # by rank and name
    key: bytes
    store: StoreServer
    watched: Watched | None  # what ranks set below the prefix that was asked for


@dataclass(frozen=True)
class Job:
    slots: Sequence[plan.Slot]
    command: Sequence[str]
    knobs: Mapping[str, str]  # variables that flags set
    options: JobOptions
    far: Sequence[str]  # other hosts than this one, each once
    console: console.Console
    verdict: Verdict
    observer: JobObserver
    # signals are caught until the last line is printed, if the job has signals
    lasting: list[Signals] | None = None

    def signals(self) -> Signals:
        """Catches signals from here on."""
        caught = Signals(lasting=self.lasting is not None)
        if self.lasting is not None:
            self.lasting.append(caught)
        return caught

    def log(self, text: str) -> None:
        """Prints a line for --verbose."""
        if self.options.verbose:
            self.console.say(text)

    @contextlib.contextmanager
    def opened(self, prefix: str = "", everywhere: bool = False) -> Iterator[OpenedJob]:
        """Opens files, the secret and the store. `prefix`: the launcher watches the keys below it.

        `everywhere`: other hosts may come later.
        A bad path or a bad secret raises ValueError or OSError before anything has started.
        """
        streams = self._open_streams()
        key = secret.of_the_user({**os.environ, **self.knobs}) or secret.create()
        with contextlib.ExitStack() as stack:
            for stream in streams.values():
                stack.callback(stream.end)
            # If all ranks are on this host, the store listens on loopback only.
            store = StoreServer.reached(key, everywhere or bool(self.far))
            watched = store.watch(prefix) if prefix else None
            stack.enter_context(store)
            self.verdict.hearing = lambda: ranks_have_met(store)
            self.verdict.call_off = lambda rank, why: store.call_off("init", why, rank)
            stack.callback(self.observer.close)
            self.observer.begin(store, key)
            yield OpenedJob(streams, key, store, watched)

    def _open_streams(self) -> dict[tuple[int, str], output.Stream]:
        """Opens the streams, with the files for --output-filename."""
        sinks = {"stdout": self.console.stdout, "stderr": self.console.stderr}
        ranks = [slot.rank for slot in self.slots]
        mergers: dict[str, Collapse] = {}
        if self.options.collapse:
            from hvdlite.launch.collapse import Collapse

            mergers = {name: Collapse(name, ranks, sink.emit) for name, sink in sinks.items()}
        directory = self.options.output_directory
        found = {}
        for rank in ranks:
            for name, sink in sinks.items():
                copy = output.open_copy(directory, rank, len(ranks), name) if directory else None
                found[rank, name] = output.Stream(rank, name, sink, copy, mergers.get(name))
        return found

    def watch(
        self,
        groups: Mapping[str, RankGroup],
        streams: Mapping[tuple[int, str], output.Stream],
        signals: Signals,
    ) -> None:
        """Watches until all ranks have ended. `signals` have been caught since before the first
        rank was started."""
        observer = self.observer
        calls = observer.calls()
        watch.watch(groups, streams, self.verdict, self.log, observer.tick, signals, calls)
        observer.end()

    @contextlib.contextmanager
    def concluded(self) -> Iterator[Conclusion]:
        """The block runs the ranks to their end. If they end or cannot start, prints the launcher's
        last line and sets the exit status. Main thread only."""
        conclusion = Conclusion()
        try:
            try:
                yield conclusion
                status = self.verdict.status()
                sentence = with_hint(self.verdict.sentence(self.command))
            except NotRun as shown:
                status, sentence = 2, str(shown)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                status, sentence = 1, _why_not(error)
            except KeyboardInterrupt:  # before or after the watch, which has handlers of its own
                status, sentence = 128 + signal.SIGINT, "ended by SIGINT; all ranks were ended."
            conclusion.status = self._conclude(status, sentence)
        finally:
            for caught in self.lasting or ():
                if self.options.exits:
                    caught.ignore()
                else:
                    caught.restore()

    def _conclude(self, status: int, sentence: str) -> int:
        """Prints the result, and returns the exit status."""
        self.observer.end()  # not if an exception has come
        self.observer.judged(status, sentence)
        losses = self.console.losses()
        self.console.say("\n".join([*losses, sentence]))
        with contextlib.suppress(KeyboardInterrupt):
            self._flush()
            late = self.console.losses()
            self.console.say("\n".join(late))
            losses += late
            self._flush()
        self.options.hears(sentence or "\n".join(losses))
        return status or (1 if losses else 0)

    def _flush(self) -> None:
        """Waits until the output has been read, or until a signal comes."""
        before = self._count()
        self.console.flush(lambda: self._count() > before)

    def _count(self) -> int:
        return sum(len(signals.caught) for signals in self.lasting or ())


def of_the_command_line(
    hosts: Iterable[str],
    slots: Sequence[plan.Slot],
    command: Sequence[str],
    knobs: Mapping[str, str],
    options: JobOptions,
    verdict: Verdict,
) -> Job:
    """Returns a job that prints to the launcher's stdout and stderr. `hosts`: all hosts where ranks
    may be started."""
    logging.basicConfig(format="hvdliterun: %(message)s")  # the store's log about strangers
    far = elsewhere(hosts)
    screen, shown = console.of_the_command_line(
        verdict.hosts, bool(far), options.monitor, options.timestamps, options.outlets, command
    )
    observer = watchable(shown, command, knobs, verdict, screen, options)
    return Job(slots, command, knobs, options, far, screen, verdict, observer, lasting=[])


def watchable(
    observer: JobObserver,
    command: Sequence[str],
    knobs: Mapping[str, str],
    verdict: Verdict,
    screen: console.Console,
    options: JobOptions,
) -> JobObserver:
    """Returns the observer with one that `hvdlite top` reaches."""
    dumps = {**os.environ, **knobs}.get("HVDLITE_STALL_DUMP", "")
    log = screen.say if options.verbose else lambda text: None
    attachable = Attachable(command, verdict.hosts, dumps, log)
    return Observers(observer, Contained(attachable, "`hvdlite top`", screen.say))


def ranks_have_met(store: StoreServer) -> bool:
    """Whether a rank has set a key. The launcher sets one itself for `hvdlite top`."""
    return not store.is_empty(besides=WANTED)


def elsewhere(hosts: Iterable[str]) -> list[str]:
    """Returns the hosts that are not this machine, each once. It resolves their names, which may
    take a while."""
    # A host with a user name needs ssh.
    return [
        host
        for host in dict.fromkeys(hosts)
        if "@" in host or not addresses.is_of_this_machine(host.strip("[]"))
    ]


def _why_not(error: Exception) -> str:
    """Returns the launcher's last line for a job that cannot start."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if error.errno == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return (
            f"too many open files: {limit} are allowed here, and every rank needs 4. `ulimit "
            "-n` raises that."
        )
    what = "" if error.filename is None else f"cannot open {error.filename}: "
    return f"{what}{error.strerror}."
