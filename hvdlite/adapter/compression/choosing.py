"""Which tensors hvd.Compression.auto compresses, and how. DECIDES; pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

#: A compression must make an allreduce shorter by this share.
LEAST_GAIN = 0.1
#: All compressions together must make a step shorter by this share.
LEAST_GAIN_OF_STEP = 0.05


class Curve(NamedTuple):
    """How long an allreduce takes, by how many numbers its tensor has."""

    counts: tuple[int, ...]  # rising
    seconds: tuple[float, ...]

    def at(self, count: int) -> float:
        """On straight lines between what was measured. Smaller tensors take as long as the smallest
        one; larger ones continue the last line."""
        if count <= self.counts[0] or len(self.counts) == 1:
            return self.seconds[0]
        end = min(bisect_left(self.counts, count), len(self.counts) - 1)
        (low, high), (least, most) = self.counts[end - 1 : end + 1], self.seconds[end - 1 : end + 1]
        return least + (most - least) * (count - low) / (high - low)


class Measured(NamedTuple):
    """What the ranks have measured, the same on all of them."""

    dense: Curve | None  # None: nothing was measured
    compressed: tuple[Curve, ...] = ()  # of each candidate
    why: str = ""  # nothing was measured


def choice(count: int, measured: Measured, allowed: Sequence[int]) -> int | None:
    """The allowed candidate for a tensor of so many numbers; None: dense.

    A candidate must be faster than dense by LEAST_GAIN. Of several, the one that is fastest for the
    largest tensor that was measured: small tensors travel with large ones, and one kind of batches
    is faster than two.
    """
    if measured.dense is None:
        return None
    largest = measured.dense.counts[-1]
    for number in sorted(allowed, key=lambda number: measured.compressed[number].at(largest)):
        if measured.compressed[number].at(count) <= (1.0 - LEAST_GAIN) * measured.dense.at(count):
            return number
    return None


class Trial:
    """Compares steps that compress with dense ones. They take turns, so that a program that becomes
    faster or slower in its first steps favours neither.

    `compresses` says how the next step travels.
    """

    TURNS = 3

    def __init__(self, now: float) -> None:
        self.compresses = True
        self._last = now
        self._steps = 0
        self._seconds: dict[bool, list[float]] = {True: [], False: []}

    def step(self, now: float) -> None:
        """A step has ended. The first one does not count: it allocates memory."""
        if self._steps:
            self._seconds[self.compresses].append(now - self._last)
        self._last = now
        self._steps += 1
        self.compresses = not self.compresses

    @property
    def is_over(self) -> bool:
        return self._steps > 2 * self.TURNS

    def medians(self) -> tuple[float, float]:
        """Of the dense steps, and of those that compress."""
        return median(self._seconds[False]), median(self._seconds[True])


def shortens(dense: float, compressed: float) -> bool:
    """Whether the steps that compress are worth it."""
    return compressed <= (1.0 - LEAST_GAIN_OF_STEP) * dense


def rule(measured: Measured, labels: Sequence[str]) -> str:
    """What choice() says, in words: for tensors that all candidates take."""
    allowed = range(len(labels))
    parts: list[str] = []
    last: int | None = -1
    for count in (1 << power for power in range(6, 31)):
        chosen = choice(count, measured, allowed)
        if chosen != last:
            label = "dense" if chosen is None else labels[chosen]
            parts.append(f"{label} from {count} numbers on" if parts else label)
        last = chosen
    return "no compression" if parts == ["dense"] else ", ".join(parts)


def evidence(measured: Measured, labels: Sequence[str]) -> str:
    """What the choice follows from, before any step was tried."""
    if measured.dense is None:
        return measured.why
    count = measured.dense.counts[-1]
    times = [f"{curve.at(count) * 1e3:.3g} ms with {label}"
             for curve, label in zip(measured.compressed, labels, strict=True)]  # fmt: skip
    dense = measured.dense.at(count) * 1e3
    return f"{count} numbers take {', '.join(times)}, and {dense:.3g} ms dense"
