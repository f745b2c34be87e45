"""Several observers of one job."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hvdlite.launch.watch import JobObserver, Situation
from hvdlite.rendezvous.server import StoreServer


class Observers(JobObserver):
    """Each is called in turn. An exception of one ends the job, as it does alone."""

    def __init__(self, *observers: JobObserver) -> None:
        self._observers = observers

    def begin(self, store: StoreServer, secret: bytes) -> None:
        for observer in self._observers:
            observer.begin(store, secret)

    def ask(self, situation: Callable[[], Situation]) -> None:
        for observer in self._observers:
            observer.ask(situation)

    def calls(self) -> Mapping[int, Callable[[], None]]:
        return {
            descriptor: answer
            for observer in self._observers
            for descriptor, answer in observer.calls().items()
        }

    def tick(self) -> float | None:
        pauses = [observer.tick() for observer in self._observers]
        return min((pause for pause in pauses if pause is not None), default=None)

    def told(self, text: str) -> None:
        for observer in self._observers:
            observer.told(text)

    def end(self) -> None:
        for observer in self._observers:
            observer.end()

    def judged(self, status: int, sentence: str) -> None:
        for observer in self._observers:
            observer.judged(status, sentence)

    def close(self) -> None:
        for observer in self._observers:
            observer.close()
