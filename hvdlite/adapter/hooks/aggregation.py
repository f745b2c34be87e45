"""When gradients travel: after how many backward passes, and with whom. Knows numbers, no tensors;
hooks ask it."""

from __future__ import annotations

from collections.abc import Sequence

Unit = tuple[int, ...]  # gradients that travel together

_TOO_MANY = (
    "backward() has computed more gradients than backward_passes_per_step announces for one "
    "step(). "
    "Raise backward_passes_per_step to add several passes up, or call step() after each backward()."
)


class Aggregation:
    """Counts the backward passes of each gradient. Gradients are numbered in the order of add()."""

    def __init__(self, passes: int) -> None:
        self.passes = passes
        self._left: list[int] = []
        self._unit_of: list[Unit] = []
        self._waiting: dict[Unit, int] = {}  # of groups: how many of it have not arrived
        self._unsent = 0

    def add(self) -> int:
        """A gradient that travels alone."""
        number = len(self._left)
        self._left.append(self.passes)
        self._unit_of.append((number,))
        self._unsent += 1
        return number

    def group(self, members: Sequence[int]) -> None:
        """From now on these travel together."""
        unit = tuple(members)
        if len(unit) < 2:
            return
        for number in unit:
            self._unit_of[number] = unit
        self._waiting[unit] = len(unit)
        self._unsent -= len(unit) - 1

    def travels_at_once(self, number: int) -> bool:
        """Whether one backward pass is all that this gradient waits for."""
        return self.passes == 1 and len(self._unit_of[number]) == 1

    def arrived(self, number: int) -> Unit:
        """A backward pass has reached this gradient. Returns those that may be submitted now, often
        none."""
        left = self._left[number] - 1
        if left:
            if left < 0:
                raise AssertionError(_TOO_MANY)
            self._left[number] = left
            return ()
        self._left[number] = 0
        unit = self._unit_of[number]
        if len(unit) > 1:
            self._waiting[unit] -= 1
            if self._waiting[unit]:
                return ()
        self._unsent -= 1
        return unit

    def rest(self) -> list[Unit]:
        """The units that have not travelled in this step. Ends the step: counting begins anew."""
        units: list[Unit] = []
        if self._unsent:
            alone = [
                u for u, left in zip(self._unit_of, self._left, strict=True) if left and len(u) == 1
            ]
            units = alone + [unit for unit, waiting in self._waiting.items() if waiting]
        self.reset()
        return units

    def reset(self) -> None:
        """As if no gradient had arrived."""
        self._left = [self.passes] * len(self._left)
        self._waiting = {unit: len(unit) for unit in self._waiting}
        self._unsent = len(self._left) - sum(len(unit) - 1 for unit in self._waiting)
