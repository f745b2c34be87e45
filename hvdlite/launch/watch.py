"""From the ranks' start to the end of the job: output, deaths and signals. `verdict.Verdict`
decides, and `watch` waits."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any

from hvdlite.launch.output import Stream, drain
from hvdlite.launch.spawn.events import (
    AllGone,
    Event,
    HostLost,
    Output,
    RankEnded,
    RankGroup,
    RankPipes,
    RankStarted,
    RankStartFailed,
    Unanswered,
)
from hvdlite.launch.spawn.guardian import ASKING, FORWARDED
from hvdlite.launch.spawn.silent_hosts import Patience
from hvdlite.launch.verdict import Verdict, is_consequence

_READ_BYTES = 1 << 16
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Signals that the launcher passes on to the ranks.
PASSED_ON = (*FORWARDED, *ASKING)
# If no signal can end a wait, the thread checks this often whether it was sent an exception.
_GLANCE_SECONDS = 0.5


class Signals:
    """Collects the launcher's signals for `watch`. Begins before the first rank is started, so no
    signal can end the launcher alone. Does nothing outside the main thread, which alone receives
    signals. `lasting`: collects them beyond close(), until restore() or ignore()."""

    def __init__(self, lasting: bool = False) -> None:
        self.caught: list[int] = []
        self._lasting = lasting
        self._handlers: dict[int, Any] = {}
        self._before: int | None = None
        # `wake` becomes readable
        self.wake, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        if threading.current_thread() is not threading.main_thread():
            return
        self._before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (*_ENDING, *PASSED_ON):
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                self._handlers[number] = signal.signal(number, self._catch)

    def _catch(self, number: int, _: FrameType | None) -> None:
        self.caught.append(number)

    def close(self) -> None:
        """The job has ended. May be called twice."""
        if not self._lasting:
            self.restore()
        if self._before is not None:
            signal.set_wakeup_fd(self._before)
            self._before = None
        if self.wake >= 0:
            os.close(self.wake)
            os.close(self._wake_write)
            self.wake = -1

    def restore(self) -> None:
        """Restores the effect that signals had before."""
        while self._handlers:
            signal.signal(*self._handlers.popitem())

    def ignore(self) -> None:
        """For a process that only has to exit with its status."""
        for number in self._handlers:
            signal.signal(number, signal.SIG_IGN)


def watch(
    groups: Mapping[str, RankGroup],
    streams: Mapping[tuple[int, str], Stream],
    verdict: Verdict,
    log: Callable[[str], None] = lambda text: None,
    chore: Callable[[], float | None] = lambda: None,
    signals: Signals | None = None,
    calls: Mapping[int, Callable[[], None]] | None = None,
) -> None:
    """Pumps output and judges deaths until nothing is left. `groups` by host; `streams` by rank and
    name.

    `chore()` runs in every turn and returns the maximum seconds until its next run. `signals` is
    closed at the end. Outside the main thread no signal ends the job, but an exception that is sent
    to the thread does. `calls`: what else is watched.
    """
    with (
        contextlib.closing(signals or Signals()) as received,
        contextlib.closing(Watch(groups, streams, verdict, log, chore)) as watching,
    ):
        watching.call_all(calls or {})
        watching.loop(received.wake, received.caught)


class Watch:
    """The loop of the launcher's main thread. Groups may be added while it runs."""

    def __init__(
        self,
        groups: Mapping[str, RankGroup],
        streams: Mapping[tuple[int, str], Stream],
        verdict: Verdict,
        log: Callable[[str], None],
        chore: Callable[[], float | None],
    ) -> None:
        self.chore = chore
        is_main = threading.current_thread() is threading.main_thread()
        self.glance = None if is_main else _GLANCE_SECONDS
        self.streams = dict(streams)  # groups that have not ended
        self.stderr = {rank: stream for (rank, name), stream in streams.items() if name == "stderr"}
        self.verdict = verdict
        self.log = log
        self.selector = selectors.DefaultSelector()
        self.groups: dict[int, tuple[str, RankGroup]] = {}  # by descriptor, until all are gone
        self.pipes: dict[int, tuple[int, str]] = {}  # by descriptor, until they end
        self.patience: dict[int, Patience] = {}  # by the groups' descriptors
        self.calls: dict[int, Callable[[], None]] = {}  # other descriptors, and what reads them
        # descriptors that are not read, because a sink accepts nothing now
        self.paused: set[int] = set()
        for host, group in groups.items():
            self.add(host, group)
        self.asked = False  # the ranks have been asked to end
        self.turn = time.monotonic()
        self.resisting = 0
        self.guardian_died = False

    def add(self, host: str, group: RankGroup) -> None:
        self.groups[group.fileno()] = host, group
        self.patience[group.fileno()] = Patience()
        self.selector.register(group.fileno(), selectors.EVENT_READ)
        for rank, pipes in group.pipes.items():
            self.listen(rank, pipes)

    def listen(self, rank: int, pipes: RankPipes) -> None:
        """Reads a rank's streams from now on."""
        for descriptor, name in ((pipes.stdout, "stdout"), (pipes.stderr, "stderr")):
            self.pipes[descriptor] = rank, name
            self.selector.register(descriptor, selectors.EVENT_READ)

    def call(self, descriptor: int, answer: Callable[[], None]) -> None:
        """Calls `answer` whenever the descriptor is readable."""
        self.calls[descriptor] = answer
        self.selector.register(descriptor, selectors.EVENT_READ)

    def call_all(self, calls: Mapping[int, Callable[[], None]]) -> None:
        for descriptor, answer in calls.items():
            self.call(descriptor, answer)

    def goes_on(self) -> bool:
        return bool(self.groups)

    def loop(self, wake: int, caught: list[int]) -> None:
        self.selector.register(wake, selectors.EVENT_READ)
        while self.goes_on():
            ready = {key.fd for key, _ in self.selector.select(self._pause())}
            # This turn reads all output up to now. If the launcher is suspended in the middle of a
            # turn, it must not take that for silence of the ranks.
            self.turn = time.monotonic()
            for descriptor in ready & self.pipes.keys():
                self._read(descriptor)
            for descriptor in ready & self.groups.keys():
                host, group = self.groups[descriptor]
                self.patience[descriptor].heard(self.turn)
                events = group.events()
                self._read_last_words(events)
                for event in events:
                    self.happened(descriptor, host, event)
            for descriptor in ready & self.calls.keys():
                self.calls[descriptor]()
            if wake in ready:
                os.read(wake, 4096)
            self.signalled(caught)
            self.judge()
            self._give_up()
            self._tick()
        self.verdict.gone = AllGone(self.resisting, self.guardian_died)
        for descriptor in list(self.pipes):
            # No process of the job is left: the pipes hold all output, or the output of a process
            # that has escaped.
            drain(partial(self._read, descriptor))

    def finish(self, rank: int) -> None:
        """Nothing of this rank is left: reads what its pipes hold, and forgets them."""
        for descriptor, (whose, _) in list(self.pipes.items()):
            if whose == rank:
                drain(partial(self._read, descriptor))
            if whose == rank and descriptor in self.pipes:
                self._forget(descriptor)
                self.end_stream(self.pipes.pop(descriptor))

    def judge(self) -> None:
        if self.verdict.decide(time.monotonic()):
            self.ask(politely=True)

    def close(self) -> None:
        for stream in self.streams.values():
            stream.end()
        self.selector.close()

    def _pause(self) -> float | None:
        reasons = (
            0.02 if self.paused else None,
            0.05 if self.verdict.pending() else None,
            self.chore(),
            self.glance,
            *(stream.wait(self.turn) for stream in self.streams.values()),
            *(self.patience[descriptor].left(self.turn) for descriptor in self.groups),
        )
        return min((seconds for seconds in reasons if seconds is not None), default=None)

    def _read(self, descriptor: int) -> bool:
        """Returns True if there was something."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._feed(self.pipes[descriptor], data)
        else:
            self._forget(descriptor)
            self.end_stream(self.pipes.pop(descriptor))
            for _, group in self.groups.values():
                group.wake()
        return bool(data)

    def _feed(self, which: tuple[int, str], data: bytes) -> None:
        if which in self.streams:
            self.streams[which].feed(data, self.turn)

    def end_stream(self, which: tuple[int, str]) -> None:
        """Ends a stream, if it has not ended yet."""
        if which in self.streams:
            self.streams.pop(which).end()

    def _forget(self, descriptor: int) -> None:
        if descriptor in self.paused:
            self.paused.discard(descriptor)
        else:
            self.selector.unregister(descriptor)

    def _read_last_words(self, events: Sequence[Event]) -> None:
        # A rank's last words are in the pipe before it ends, but they may not have been read yet.
        ended = {event.rank for event in events if isinstance(event, RankEnded)}
        for descriptor, (rank, _) in list(self.pipes.items()):
            if rank in ended and descriptor not in self.paused:
                drain(partial(self._read, descriptor))

    def happened(self, descriptor: int, host: str, event: Event) -> None:
        if isinstance(event, Output):
            if event.data:
                self._feed((event.rank, event.stream), event.data)
            else:
                self.end_stream((event.rank, event.stream))
        elif isinstance(event, RankStarted):
            where = self.verdict.hosts[event.rank]
            self.log(f"rank {event.rank} on {where} is process {event.pid}")
        elif isinstance(event, RankStartFailed):
            self.verdict.start_failure = event
        elif isinstance(event, RankEnded):
            self.log(f"rank {event.rank} ended with status {event.status}")
            said = self.stderr[event.rank].last_words
            words = said.found()[0]
            if not is_consequence(words):  # where such a rank waited explains nothing
                words = said.with_place()
            self.verdict.ended(event, words, time.monotonic())
        elif isinstance(event, HostLost):
            self.verdict.lost_host(host, event.reason)
        elif isinstance(event, Unanswered):
            self.verdict.unanswered(host, event.killed)
        elif isinstance(event, AllGone):
            self.resisting += event.resisting
            self.guardian_died = self.guardian_died or event.guardian_died
            self._forget(descriptor)
            del self.groups[descriptor]

    def ask(self, politely: bool) -> None:
        """Asks the ranks to end: after the grace period, or at once."""
        self.asked = True
        for descriptor, (_, group) in self.groups.items():
            if politely:
                group.terminate()
            else:
                group.kill()
            self.patience[descriptor].asked(group.ending_seconds(politely), time.monotonic())

    def _give_up(self) -> None:
        """Gives up hosts that were asked to end their ranks and do not answer."""
        now = time.monotonic()
        for descriptor, (host, group) in list(self.groups.items()):
            if descriptor in self.paused:
                self.patience[descriptor].heard(now)
            elif self.patience[descriptor].left(now) == 0:
                self.log(f"host {host} does not answer")
                for event in group.abandon():
                    self.happened(descriptor, host, event)

    def signalled(self, caught: list[int]) -> None:
        while caught:
            number = caught.pop(0)
            if number in PASSED_ON:
                for _, group in self.groups.values():
                    group.forward(number)
            elif self.asked or self.verdict.interrupted:
                self.ask(politely=False)  # a second request ends the patience
            elif self.verdict.decided:
                self.verdict.hurried = True
            else:
                self.verdict.interrupted = number

    def _tick(self) -> None:
        for stream in self.streams.values():
            stream.tick(self.turn)
        now = time.monotonic()
        for descriptor, which in self.pipes.items():
            if which in self.streams:
                self._pause_unless(self.streams[which].sink.accepts(now), descriptor)
        if any(not group.pipes for _, group in self.groups.values()) or self.paused:
            # The output of another host comes in one stream with its events.
            sinks = {stream.sink for stream in self.streams.values()}
            accepts = all(sink.accepts(now) for sink in sinks)
            for descriptor, (_, group) in self.groups.items():
                self._pause_unless(accepts or bool(group.pipes), descriptor)

    def _pause_unless(self, accepts: bool, descriptor: int) -> None:
        if not accepts and descriptor not in self.paused:
            self.paused.add(descriptor)
            self.selector.unregister(descriptor)
        elif accepts and descriptor in self.paused:
            self.paused.discard(descriptor)
            self.selector.register(descriptor, selectors.EVENT_READ)
