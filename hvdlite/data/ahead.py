"""A rank's samples in the steps to come, for readers that are ahead of the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hvdlite.data import order
from hvdlite.data.dealing import Dealing, Position, Step
from hvdlite.data.order import Indices, Order


class Orders:
    """The orders of a data set's epochs. Threads may share it."""

    def __init__(self, length: int, seed: int, shuffle: bool) -> None:
        self._length = length
        self._seed = seed
        self._shuffle = shuffle
        self._kept: dict[int, Order] = {}

    def of(self, epoch: int) -> Order:
        """Those of the epochs beside the last one are kept."""
        if not self._shuffle:
            return order.straight
        found = self._kept.get(epoch)
        if found is None:
            found = order.shuffled(self._length, self._seed, epoch)
            beside = {e: o for e, o in self._kept.items() if abs(e - epoch) == 1}
            self._kept = {**beside, epoch: found}
        return found


class Ahead:
    """The rest of an epoch from one place on, as one rank of a world of one size sees it.

    It stays as it is while the cursor moves on. `is_current` turns False with the deal.
    """

    def __init__(
        self,
        dealing: Dealing,
        orders: Orders,
        at: Position,
        place: tuple[int, int],
        is_current: Callable[[], bool],
    ) -> None:
        """`place`: rank and size."""
        self.is_current = is_current
        self._rank, self._size = place
        self._dealing = dealing
        self._orders = orders
        self._at = dealing.settled(at, self._size)

    def __len__(self) -> int:
        return self._dealing.left(self._at, self._size)

    def __getitem__(self, number: int) -> Indices:
        """The samples of the step that is so many steps away."""
        if not 0 <= number < len(self):
            raise IndexError(f"step {number} of the {len(self)} that are left in the epoch")
        sample = self._at.sample + number * self._dealing.full(self._size)
        at = Position(self._at.epoch, sample)
        return self.samples(self._dealing.step(at, self._size))

    def __iter__(self) -> Iterator[Indices]:
        """Ends early when the deal is over."""
        for number in range(len(self)):
            if not self.is_current():
                return
            yield self[number]

    def samples(self, step: Step) -> Indices:
        first, end = self._dealing.part(step, self._rank, self._size)
        places = np.arange(step.begin.sample + first, step.begin.sample + end, dtype=np.int64)
        epochs, places = np.divmod(places, self._dealing.length)
        if self._dealing.tail != "carry":
            # Beyond the end of the epoch its first samples are repeated.
            return self._orders.of(step.begin.epoch)(places)
        found = np.empty_like(places)
        for later in sorted(set(epochs.tolist())):
            these = epochs == later
            found[these] = self._orders.of(step.begin.epoch + later)(places[these])
        return found
