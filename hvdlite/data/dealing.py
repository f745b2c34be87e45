"""Which samples a step takes, and which of them each rank. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

Example = TypeVar("Example")

TAILS = ("pad", "drop", "carry", "short")


@dataclass(frozen=True)
class Position:
    """Where the next step begins."""

    epoch: int = 0
    sample: int = 0  # in the epoch's order


@dataclass(frozen=True)
class Step:
    """The samples of all ranks: `total` places from `begin` on, of which the last are repeats."""

    begin: Position
    end: Position
    total: int
    repeats: int


@dataclass(frozen=True)
class Dealing:
    """The rule. `batch_size` is per rank, or else `global_batch` is for all ranks."""

    length: int
    batch_size: int | None
    global_batch: int | None
    tail: str

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"there are no samples to deal: the length is {self.length}")
        if (self.batch_size is None) == (self.global_batch is None):
            raise ValueError("a Cursor takes either batch_size, per rank, or global_batch")
        if (self.batch_size or self.global_batch or 0) < 1:
            raise ValueError("a Cursor's batch has one sample at least")
        if self.tail not in TAILS:
            raise ValueError(f"tail={self.tail!r}: one of {', '.join(TAILS)}")
        if self.tail == "short" and self.global_batch is None:
            raise ValueError("tail='short' needs global_batch: ranks have equal batches otherwise")

    def full(self, size: int) -> int:
        """The samples of a full step of `size` ranks."""
        return self.global_batch or size * (self.batch_size or 0)

    def next_begin(self, at: Position, size: int) -> Position:
        """Returns where the next step begins. `drop` leaves out what is less than a step."""
        if self.tail != "drop" or self.length - at.sample >= self.full(size):
            return at
        if self.length < self.full(size):
            raise ValueError(
                f"dropping the rest leaves no step: {self.length} samples are fewer than the "
                f"{self.full(size)} of a step of {size} ranks"
            )
        return Position(at.epoch + 1, 0)

    def step(self, at: Position, size: int) -> Step:
        at, full = self.next_begin(at, size), self.full(size)
        rest = self.length - at.sample
        if self.tail == "carry" or full <= rest:
            epochs, sample = divmod(at.sample + full, self.length)
            return Step(at, Position(at.epoch + epochs, sample), full, 0)
        end = Position(at.epoch + 1, 0)
        if self.tail == "short":
            return Step(at, end, rest, 0)
        return Step(at, end, full, full - rest)

    def left(self, at: Position, size: int) -> int:
        """How many steps begin in the rest of the epoch."""
        at, full = self.next_begin(at, size), self.full(size)
        rest = self.length - at.sample
        return rest // full if self.tail == "drop" else -(-rest // full)

    def part(self, step: Step, rank: int, size: int) -> tuple[int, int]:
        """The first place of this rank in the step, and the one behind its last."""
        return rank * step.total // size, (rank + 1) * step.total // size

    def weight(self, step: Step, rank: int, size: int) -> float:
        """Of this rank's mean in the mean over ranks."""
        first, end = self.part(step, rank, size)
        return (end - first) * size / step.total


# ---- Whether all ranks deal the same data

#: What the ranks compare at the start of each epoch, and what to do where it differs.
FIELDS = {
    "length": "give each rank the whole data set, the same on all ranks",
    "batch_size": "give all ranks the same batch_size",
    "shuffle": "give all ranks the same shuffle",
    "rest": "give all ranks the same rest",
    "seed": "give all ranks the same seed",
    "epoch": "call set_epoch() with the same number on all ranks, or load the same state",
    "sample": "leave loops at the same step on all ranks, and load the same state",
}
_MOST = 4  # ranks that a sentence names


def difference(rows: Sequence[Sequence[int]]) -> str:
    """Returns a sentence about the first of FIELDS that differs between the ranks; empty: none.

    Ranks whose data sets have different lengths would take different samples for the same, do
    different numbers of steps, or wait for each other. `rows` are the values of each rank.
    """
    for place, (field, remedy) in enumerate(FIELDS.items()):
        ranks_of: dict[int, list[int]] = {}
        for rank, row in enumerate(rows):
            ranks_of.setdefault(row[place], []).append(rank)
        if len(ranks_of) > 1:
            said = ", ".join(f"{value} on {_ranks(ranks)}" for value, ranks in ranks_of.items())
            return f"the ranks share out different data: {field} is {said}; {remedy}"
    return ""


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(str(rank) for rank in ranks[:_MOST])
    more = f" and {len(ranks) - _MOST} more" if len(ranks) > _MOST else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {named}{more}"


# ---- Examples that come one after another, without numbers


def dealt(
    examples: Iterable[Example], rank: int, size: int, rest: str, done: int = 0
) -> Iterator[Example]:
    """Yields this rank's examples of a stream that all ranks read alike, without the first `done`,
    which all ranks have had before.

    Of each group of as many examples as there are ranks, each rank gets one. All ranks see where
    the stream ends, so they get equally many without asking each other.

    `rest="pad"`: the last group is filled up with the first examples of the stream.
    """
    stream = iter(examples)
    first = list(islice(stream, size))
    stream = chain(first, stream)
    for _ in islice(stream, done):
        pass
    while True:
        group = list(islice(stream, size))
        if len(group) == size:
            yield group[rank]
            continue
        if group and rest == "pad":
            group += [first[place % len(first)] for place in range(size - len(group))]
            yield group[rank]
        return
