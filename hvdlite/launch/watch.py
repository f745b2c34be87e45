"""From the ranks' start to the end of the job: output, deaths, signals, and the verdict.

`Verdict` decides and is pure; `watch` does the waiting.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from hvdlite.launch.output import IDLE_SECONDS, Stream
from hvdlite.launch.spawn.local import AllGone, Ended, Event, Ranks, Started, StartFailed

# A rank that fails because a peer was lost may exit sooner than the peer, whose interpreter takes its time
# to end. So long the launcher waits for the cause before it takes the consequence for it.
SETTLE_SECONDS = 0.5
_CONSEQUENCES = (b"PeerLostError", b"ShutDownError")
_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class Failure:
    ended: Ended
    last_words: bytes

    @property
    def order(self) -> tuple[bool, bool]:
        """Sorts causes before consequences and, of ranks that died at the same time, crashes before exits."""
        consequence = not self.ended.signal and any(name in self.last_words for name in _CONSEQUENCES)
        return consequence, not self.ended.signal


@dataclass
class Verdict:
    """Whose failure ended the job? Pure; times are handed in."""

    hosts: Mapping[int, str]
    failures: list[Failure] = field(default_factory=list)
    start_failure: StartFailed | None = None
    interrupted: int = 0
    gone: AllGone | None = None
    decided: bool = False
    _first_failure: float = 0.0

    def ended(self, ended: Ended, last_words: bytes, now: float) -> None:
        # What ends after the decision was ended by us.
        if ended.status and not self.decided:
            if not self.failures:
                self._first_failure = now
            self.failures.append(Failure(ended, last_words))

    def decide(self, now: float) -> bool:
        """True once, when the other ranks have to be ended now. To be asked after each batch of events."""
        if self.decided or not (self.failures or self.start_failure or self.interrupted):
            return False
        only_consequences = bool(self.failures) and all(failure.order[0] for failure in self.failures)
        if only_consequences and not self.interrupted and now - self._first_failure < SETTLE_SECONDS:
            return False
        self.decided = True
        return True

    def pending(self) -> bool:
        """Whether decide() has to be asked again soon although nothing happens."""
        return bool(self.failures) and not self.decided

    def status(self) -> int:
        """The launcher's exit status."""
        if self.interrupted:
            return 128 + self.interrupted
        if self.start_failure is not None:
            return 127 if self.start_failure.errno == errno.ENOENT else 126
        if self.failures:
            return self._cause().ended.status
        return 1 if self.gone is not None and (self.gone.guardian_died or self.gone.resisting) else 0

    def sentence(self, command: Sequence[str]) -> str:
        """The launcher's last line; empty when all went well."""
        return " ".join(part for part in (self._what(command), self._left()) if part)

    def _cause(self) -> Failure:
        return min(self.failures, key=lambda failure: failure.order)

    def _what(self, command: Sequence[str]) -> str:
        if self.interrupted:
            return f"hvdliterun: ended by {_signal_name(self.interrupted)}; all ranks were ended."
        if self.start_failure is not None:
            reason = os.strerror(self.start_failure.errno)
            hint = f" Did you mean `python {command[0]}`?" if command[0].endswith(".py") else ""
            return f"hvdliterun: cannot start {command[0]!r}: {reason}.{hint}"
        if self.gone is not None and self.gone.guardian_died:
            return "hvdliterun: the guardian of the ranks was killed, so all ranks were ended."
        if not self.failures:
            return ""
        failure = self._cause()
        ended, rank = failure.ended, failure.ended.rank
        if ended.signal:
            how = f"was killed by {_signal_name(ended.signal)}"
            if ended.signal == signal.SIGKILL:
                how += " (by somebody, or by the kernel for want of memory)"
        else:
            how = f"exited with code {ended.code}"
            if failure.last_words:
                how += f": {failure.last_words.decode(errors='backslashreplace')}"
        others = "" if len(self.hosts) == 1 else " All other ranks have ended, too."
        return f"hvdliterun: rank {rank} on {self.hosts[rank]} {how.removesuffix('.')}.{others}"

    def _left(self) -> str:
        if self.gone is None or not self.gone.resisting:
            return ""
        return f"hvdliterun: {self.gone.resisting} processes do not react to SIGKILL (waiting for a disk?)."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def _signals() -> Iterator[tuple[int, list[int]]]:
    """SIGINT, SIGTERM and SIGHUP are collected in the list; the descriptor becomes readable."""
    caught: list[int] = []

    def catch(number: int, _: FrameType | None) -> None:
        caught.append(number)

    wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    handlers = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            handlers[number] = signal.signal(number, catch)
    try:
        yield wake, caught
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(wake)
        os.close(wake_write)


def watch(
    ranks: Ranks,
    streams: Mapping[int, Stream],
    verdict: Verdict,
    log: Callable[[str], None] = lambda text: None,
) -> None:
    """Pump output and judge deaths until nothing is left. `streams` by descriptor. Main thread only."""
    with _signals() as (wake, caught):
        _Watch(ranks, streams, verdict, log).loop(wake, caught)


class _Watch:
    def __init__(
        self, ranks: Ranks, streams: Mapping[int, Stream], verdict: Verdict, log: Callable[[str], None]
    ) -> None:
        self.ranks = ranks
        self.streams = dict(streams)
        self.stderr = {stream.rank: stream for stream in streams.values() if stream.name == "stderr"}
        self.verdict = verdict
        self.log = log
        self.paused: set[int] = set()  # descriptors whose sink accepts nothing now
        self.selector = selectors.DefaultSelector()
        for descriptor in self.streams:
            self.selector.register(descriptor, selectors.EVENT_READ)

    def loop(self, wake: int, caught: list[int]) -> None:
        self.selector.register(self.ranks, selectors.EVENT_READ)
        self.selector.register(wake, selectors.EVENT_READ)
        while self.verdict.gone is None:
            ready = {key.fd for key, _ in self.selector.select(self._pause())}
            for descriptor in ready & self.streams.keys():
                self._read(descriptor)
            if self.ranks.fileno() in ready:
                events = self.ranks.events()
                self._read_last_words(events)
                for event in events:
                    self._happened(event)
            if wake in ready:
                os.read(wake, 4096)
            self._signalled(caught)
            if self.verdict.decide(time.monotonic()):
                self.ranks.terminate()
            self._tick()
        for descriptor in list(self.streams):
            # Nobody of the job is left: what the pipes hold now is all there will be.
            while self._read(descriptor):
                pass
            if descriptor in self.streams:
                self._end(descriptor)
        self.selector.close()

    def _pause(self) -> float | None:
        if self.paused:
            return 0.02
        if self.verdict.pending():
            return 0.05
        return IDLE_SECONDS if any(stream.waiting for stream in self.streams.values()) else None

    def _read(self, descriptor: int) -> bool:
        """True when there was something."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self.streams[descriptor].feed(data, time.monotonic())
        else:
            self._end(descriptor)
        return bool(data)

    def _end(self, descriptor: int) -> None:
        if descriptor in self.paused:
            self.paused.discard(descriptor)
        else:
            self.selector.unregister(descriptor)
        self.streams.pop(descriptor).end()

    def _read_last_words(self, events: Sequence[Event]) -> None:
        # A rank's last words are in the pipe before it ends; they may not have been read yet.
        ended = {event.rank for event in events if isinstance(event, Ended)}
        for descriptor, stream in list(self.streams.items()):
            if stream.rank in ended and descriptor not in self.paused:
                limit = 64  # a process it left behind may write without end
                while limit and self._read(descriptor) and descriptor in self.streams:
                    limit -= 1

    def _happened(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, Started):
            self.log(f"rank {event.rank} on {self.verdict.hosts[event.rank]} is process {event.pid}")
        elif isinstance(event, StartFailed):
            self.verdict.start_failure = event
        elif isinstance(event, Ended):
            self.log(f"rank {event.rank} ended with status {event.status}")
            self.verdict.ended(event, self.stderr[event.rank].last_words, now)
        else:
            self.verdict.gone = event

    def _signalled(self, caught: list[int]) -> None:
        while caught:
            number = caught.pop(0)
            if self.verdict.decided or self.verdict.interrupted:
                self.ranks.kill()  # asked twice: no more patience
            else:
                self.verdict.interrupted = number

    def _tick(self) -> None:
        now = time.monotonic()
        for descriptor, stream in self.streams.items():
            stream.tick(now)
            accepts = stream.sink.accepts(now)
            if not accepts and descriptor not in self.paused:
                self.paused.add(descriptor)
                self.selector.unregister(descriptor)
            elif accepts and descriptor in self.paused:
                self.paused.discard(descriptor)
                self.selector.register(descriptor, selectors.EVENT_READ)
