"""Which tensors hvd.Compression.auto compresses, and how. DECIDES; pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

#: An allreduce is faster than another one if it is shorter by this share. Where the network limits,
#: any compression saves more; elsewhere a small gain is not worth what is lost.
LEAST_GAIN = 1 / 3
#: And so much of a step: three steps of each kind tell no smaller difference.
LEAST_GAIN_OF_STEP = 0.2


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


def _is_faster(seconds: float, others: float) -> bool:
    return seconds <= (1.0 - LEAST_GAIN) * others


def pays(count: int, measured: Measured, number: int) -> bool:
    """Whether a candidate is faster than dense for a tensor of so many numbers."""
    return measured.dense is not None and _is_faster(
        measured.compressed[number].at(count), measured.dense.at(count)
    )


def choice(
    count: int, measured: Measured, allowed: Sequence[int], first: int | None = None
) -> int | None:
    """The allowed candidate for a tensor of so many numbers; None: dense.

    `first` was faster in whole steps: it takes the tensor unless dense is faster for it. Others
    must be faster than dense. Of several, it is the one that is fastest for the largest tensor that
    was measured. Both because small tensors travel with large ones, and one kind of batches is
    faster than two.
    """
    if measured.dense is None:
        return None
    if first is not None and first in allowed:
        alone = measured.compressed[first].at(count)
        return None if _is_faster(measured.dense.at(count), alone) else first
    largest = measured.dense.counts[-1]
    found = [number for number in allowed if pays(count, measured, number)]
    return min(found, key=lambda number: measured.compressed[number].at(largest), default=None)


class Trial:
    """Compares dense steps with such that prefer one candidate or another. They take turns, so that
    a program that becomes faster or slower in its first steps favours none.

    The first step of each candidate does not count: it allocates memory.
    """

    TURNS = 3

    def __init__(self, now: float, candidates: Sequence[int]) -> None:
        self._last = now
        self._seconds: dict[int | None, list[float]] = {each: [] for each in (None, *candidates)}
        self._first = list(candidates)
        self._left = [*candidates, *self.TURNS * [None, *candidates]]

    @property
    def candidate(self) -> int | None:
        """The candidate that the next step prefers; None: it is dense."""
        return self._left[0]

    def step(self, now: float) -> None:
        """A step has ended."""
        candidate = self._left.pop(0)
        if self._first:
            self._first.pop()
        else:
            self._seconds[candidate].append(now - self._last)
        self._last = now

    @property
    def is_over(self) -> bool:
        return not self._left

    def medians(self) -> dict[int | None, float]:
        """Of the dense steps (None), and of each candidate's."""
        return {candidate: median(seconds) for candidate, seconds in self._seconds.items()}


def best(medians: Mapping[int | None, float]) -> int | None:
    """The candidate whose steps are shortest; None, unless they are shorter than dense ones by
    LEAST_GAIN_OF_STEP."""
    candidate = min(medians, key=lambda candidate: medians[candidate])
    return candidate if medians[candidate] <= (1.0 - LEAST_GAIN_OF_STEP) * medians[None] else None


def rule(measured: Measured, labels: Sequence[str], first: int | None = None) -> str:
    """What choice() says, in words: for tensors that all candidates take."""
    allowed = range(len(labels))
    parts: list[str] = []
    last: int | None = -1
    for count in (1 << power for power in range(6, 31)):
        chosen = choice(count, measured, allowed, first)
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
