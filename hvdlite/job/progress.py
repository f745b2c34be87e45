"""`for batch in hvd.progress(loader):` shows one progress bar for the whole job."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

from hvdlite.job import basics, observe
from hvdlite.job.pace import PaceExchange, Rate, about_others, line

__all__ = ["progress"]

Item = TypeVar("Item")

_BAR_SECONDS = 0.5
# As often as hvdliterun thins a progress bar for a log.
_LINE_SECONDS = 10.0
# A loop that ends sooner is not worth a connection.
_EXCHANGE_AFTER_SECONDS = 2.0


def progress(
    iterable: Iterable[Item], total: int | None = None, desc: str = "", unit: str = "step"
) -> Progress[Item]:
    """Returns the items of `iterable` one by one, and shows on rank 0 how far the loop is.

    The bar is tqdm's, if tqdm is installed. Other ranks are silent. If stderr is not a terminal, or
    tqdm is missing, rank 0 prints a line every 10 seconds. Behind the bar is the slowest rank: its
    steps per second, or how much of the time the others wait for it. The ranks do not wait for each
    other for this, so they may make different numbers of steps.

    `total` is the number of items, if `len(iterable)` does not tell. `desc` is a text in front.
    """
    return Progress(iterable, total, desc, unit)


class Progress(Generic[Item]):
    """What hvd.progress() returns. Each loop over it begins a new bar and closes it in the end,
    also after `break` or an exception."""

    def __init__(self, iterable: Iterable[Item], total: int | None, desc: str, unit: str) -> None:
        self._iterable = iterable
        self._total, self._desc, self._unit = total, desc, unit
        self._loop: _Loop | None = None
        self._postfix: dict[str, Any] = {}
        if total is None and hasattr(iterable, "__len__"):
            try:
                self._total = len(self)
            except TypeError:  # a loader of a data set without a length
                pass

    def __len__(self) -> int:
        source: Any = self._iterable
        return len(source)

    def __iter__(self) -> Iterator[Item]:
        self.close()
        loop = self._loop = _Loop(self._total, self._desc, self._unit, self._postfix)
        try:
            for item in self._iterable:
                yield item
                loop.step()
        finally:
            loop.close()

    def set_postfix(self, **values: Any) -> None:
        """Shows these values behind the bar from now on, such as loss=0.21."""
        self._postfix.clear()
        self._postfix.update(values)

    def close(self) -> None:
        """Ends the bar. A loop that ends does so itself."""
        if self._loop is not None:
            self._loop.close()
        self._loop = None


class _Loop:
    """One loop over the items."""

    def __init__(self, total: int | None, desc: str, unit: str, postfix: Mapping[str, Any]) -> None:
        self._count = 0
        self._desc, self._unit, self._postfix = desc, unit, postfix
        self._rank, self._size = basics.rank(), basics.size()
        now = time.monotonic()
        self._display = _display(total, desc, unit) if self._rank == 0 else _Silence()
        self._due = now + self._display.seconds
        self._exchange_at = now + _EXCHANGE_AFTER_SECONDS
        self._exchange: PaceExchange | None = None
        self._rate = Rate(now)
        self._waited: dict[int, Rate] = {}
        if self._rank == 0:
            self._waited = {rank: Rate(now, waited) for rank, waited in _waited_for().items()}
        self._of_others = ""
        self._closed = False

    def step(self) -> None:
        self._count += 1
        now = time.monotonic()
        if now >= self._exchange_at:
            self._begin_exchange()
        if now >= self._due:
            self._due = now + self._display.seconds
            self._show(now)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._exchange is not None:
            self._exchange.stop()
        self._display.show(self._count, self._rate.read(time.monotonic(), self._count), self._said)
        self._display.end()

    def _begin_exchange(self) -> None:
        self._exchange_at = float("inf")
        store = basics.job_store()
        if store is None or self._size == 1:
            return
        key = f"{store.prefix}progress/{self._desc.replace('/', ' ')}"
        self._exchange = PaceExchange(store.place, key, self._rank, self._size, lambda: self._count)

    def _show(self, now: float) -> None:
        rate = self._rate.read(now, self._count)
        self._display.show(self._count, rate, self._note(now, rate))

    def _note(self, now: float, rate: float) -> str:
        waited = {}
        for rank, seconds in _waited_for().items():
            waited[rank] = self._waited.setdefault(rank, Rate(now, seconds)).read(now, seconds)
        others = {} if self._exchange is None else self._exchange.others
        self._of_others = about_others(rate, others, waited, self._unit)
        return self._said

    @property
    def _said(self) -> str:
        values = [f"{name}={_short(value)}" for name, value in self._postfix.items()]
        return ", ".join([*values, self._of_others] if self._of_others else values)


def _waited_for() -> dict[int, float]:
    """On rank 0: for each rank, the seconds in which operations waited for it as the last one."""
    counted = observe.metrics().get("seconds_waited_for_rank", {})
    return {int(rank): float(seconds) for rank, seconds in counted.items()}


def _short(value: Any) -> str:
    """Returns three digits of a number, which may be a tensor."""
    if isinstance(value, (str, int)):
        return str(value)
    try:
        return f"{float(value):.3g}"
    except (TypeError, ValueError):
        return str(value)


class _Display(Protocol):
    seconds: float  # between two calls of show()

    def show(self, count: int, rate: float, note: str) -> None: ...

    def end(self) -> None: ...


class _Silence:
    """On the other ranks."""

    seconds = float("inf")

    def show(self, count: int, rate: float, note: str) -> None:
        pass

    def end(self) -> None:
        pass


class _Bar:
    """tqdm's. If the terminal has gone, the loop goes on."""

    seconds = _BAR_SECONDS

    def __init__(self, tqdm: Any, total: int | None, desc: str, unit: str) -> None:
        self._bar = tqdm.tqdm(
            total=total, desc=desc or None, unit=unit, file=sys.stderr, mininterval=0, miniters=1
        )

    def show(self, count: int, rate: float, note: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(count - self._bar.n)

    def end(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._bar.close()


class _Lines:
    """For logs, and without tqdm."""

    seconds = _LINE_SECONDS

    def __init__(self, total: int | None, desc: str, unit: str) -> None:
        self._total, self._desc, self._unit = total, desc, unit
        self._began = time.monotonic()
        self._printed = -1

    def show(self, count: int, rate: float, note: str) -> None:
        if count == self._printed or sys.stderr is None:
            return
        self._printed = count
        seconds = time.monotonic() - self._began
        text = line(self._desc, self._unit, count, self._total, seconds, rate, note)
        with contextlib.suppress(OSError, ValueError):  # the reader has gone: the loop goes on
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        pass


def _display(total: int | None, desc: str, unit: str) -> _Display:
    if _shows_bars():
        try:
            return _Bar(import_module("tqdm"), total, desc, unit)
        except ImportError:
            pass
    return _Lines(total, desc, unit)


def _shows_bars() -> bool:
    """Whether stderr is a terminal, or a pipe to hvdliterun, which draws bars on its own terminal
    and thins them for a log."""
    try:
        if sys.stderr.isatty():
            return True
        mode = os.fstat(sys.stderr.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    by_hvdliterun = "HVDLITE_RANK" in os.environ or "HVDLITE_MEMBER" in os.environ
    return stat.S_ISFIFO(mode) and by_hvdliterun and "HVDLITE_RENDEZVOUS" in os.environ
