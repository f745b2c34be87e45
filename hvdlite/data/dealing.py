"""Which samples a step takes, and which of them each rank. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

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

    def settled(self, at: Position, size: int) -> Position:
        """Where the next step really begins: `drop` leaves out what is less than a step."""
        if self.tail != "drop" or self.length - at.sample >= self.full(size):
            return at
        if self.length < self.full(size):
            raise ValueError(
                f"dropping the rest leaves no step: {self.length} samples are fewer than the "
                f"{self.full(size)} of a step of {size} ranks"
            )
        return Position(at.epoch + 1, 0)

    def step(self, at: Position, size: int) -> Step:
        at, full = self.settled(at, size), self.full(size)
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
        at, full = self.settled(at, size), self.full(size)
        rest = self.length - at.sample
        return rest // full if self.tail == "drop" else -(-rest // full)

    def part(self, step: Step, rank: int, size: int) -> tuple[int, int]:
        """The first place of this rank in the step, and the one behind its last."""
        return rank * step.total // size, (rank + 1) * step.total // size

    def weight(self, step: Step, rank: int, size: int) -> float:
        """Of this rank's mean in the mean over ranks."""
        first, end = self.part(step, rank, size)
        return (end - first) * size / step.total
