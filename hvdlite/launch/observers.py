"""What accompanies a job: the protocol of an observer, several observers of one job, and observers
that cannot end it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from hvdlite.launch.last_words import in_one_line
from hvdlite.rendezvous.server import StoreServer

_Result = TypeVar("_Result")
# An observer whose tick() has failed is called again after so long.
_AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class JobStatus:
    """The status of an elastic job: the hosts of its present ranks, a line about the job, how often
    its ranks have changed, and the names of all hosts."""

    hosts: Mapping[int, str]
    line: str
    changes: int = 0
    names: tuple[str, ...] = ()


class JobObserver:
    """Accompanies a job: `hvdlite.run` with the function and its results, or the monitor. This
    class does nothing itself. The thread that supervises the job calls it."""

    def begin(self, store: StoreServer, secret: bytes) -> None:
        """The store exists, and the ranks do not yet."""

    def ask(self, status: Callable[[], JobStatus]) -> None:
        """Elastic jobs only. `status` returns the present ranks."""

    def calls(self) -> Mapping[int, Callable[[], None]]:
        """Descriptors, and what to call when one is readable, from begin() to the end."""
        return {}

    def tick(self) -> float | None:
        """Called often while the ranks run. Returns the maximum seconds until the next call, if
        that matters."""
        return None

    def told(self, text: str) -> None:
        """A line for people about the ranks of an elastic job."""

    def end(self) -> None:
        """All ranks have ended, and the store still exists. Not called if an exception has ended
        the job."""

    def judged(self, status: int, sentence: str) -> None:
        """How the job has ended: the exit status, and hvdliterun's last line, which may be
        empty."""

    def close(self) -> None:
        """The store is about to close, whatever has ended the job."""


class Observers(JobObserver):
    """Calls several observers in turn. An exception of one ends the job; see `Contained`."""

    def __init__(self, *observers: JobObserver) -> None:
        self._observers = observers

    def _all(self, call: Callable[[JobObserver], _Result]) -> list[_Result]:
        return [call(observer) for observer in self._observers]

    def begin(self, store: StoreServer, secret: bytes) -> None:
        self._all(lambda observer: observer.begin(store, secret))

    def ask(self, status: Callable[[], JobStatus]) -> None:
        self._all(lambda observer: observer.ask(status))

    def calls(self) -> Mapping[int, Callable[[], None]]:
        found = self._all(lambda observer: observer.calls())
        return {descriptor: answer for calls in found for descriptor, answer in calls.items()}

    def tick(self) -> float | None:
        pauses = self._all(lambda observer: observer.tick())
        return min((pause for pause in pauses if pause is not None), default=None)

    def told(self, text: str) -> None:
        self._all(lambda observer: observer.told(text))

    def end(self) -> None:
        self._all(lambda observer: observer.end())

    def judged(self, status: int, sentence: str) -> None:
        self._all(lambda observer: observer.judged(status, sentence))

    def close(self) -> None:
        self._all(lambda observer: observer.close())


class Contained(Observers):
    """An observer that the job does not need. The first exception is printed in one line, and the
    observer is called again as if there had been none. `name`: of the observer, in that line."""

    def __init__(self, observer: JobObserver, name: str, say: Callable[[str], None]) -> None:
        super().__init__(observer)
        self._name, self._say = name, say
        self._told = False
        self._has_failed = False  # in the last call

    def _all(self, call: Callable[[JobObserver], _Result]) -> list[_Result]:
        self._has_failed = False
        try:
            return super()._all(call)
        except Exception as error:
            self._has_failed = True
            self._complain(error)
            return []

    def calls(self) -> Mapping[int, Callable[[], None]]:
        return {
            descriptor: partial(self._answer, answer)
            for descriptor, answer in super().calls().items()
        }

    def _answer(self, answer: Callable[[], None]) -> None:
        self._all(lambda _: answer())

    def tick(self) -> float | None:
        pause = super().tick()
        return _AGAIN_SECONDS if self._has_failed else pause

    def _complain(self, error: Exception) -> None:
        if self._told:
            return
        self._told = True
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(last.filename)}:{last.lineno}"
        self._say(f"{self._name} has failed, and the job goes on: {in_one_line(error)} ({place})")
