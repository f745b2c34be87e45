"""A data set shared out to the ranks of a process set: `Shard`, a cursor with the others in sight.

It is the cursor of elastic training. These things differ:

* At the start of each epoch the ranks compare what they share out, by an allgather of 56 bytes.
* state_dict() counts the batch that is in the loop's body: a program saves behind the optimizer's
  step. A cursor in an elastic state is asked at the end of a step, where both say the same.
* A loop that was left by `break` is not continued: the next one begins the next epoch. After
  load_state_dict() a loop goes on where the state was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from hvdlite.core.arrays import ops
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.data.cursor import Cursor
from hvdlite.data.dealing import Position, difference
from hvdlite.job import basics

_log = logging.getLogger("hvdlite")

RESTS = ("pad", "drop")


class Shard(Cursor):
    """Deals the samples `range(length)` to the ranks of a process set, each once per epoch.

    A step takes `batch_size` samples for each rank. `rest` says what becomes of the samples at the
    end of an epoch that do not fill a step: `"pad"` repeats the first ones of the epoch, and
    `"drop"` leaves the rest out.
    """

    def __init__(self, length: int, batch_size: int = 1, *, shuffle: bool = True, seed: int = 0,
                 rest: str = "pad",
                 process_set: ProcessSet = global_process_set) -> None:  # fmt: skip
        if rest not in RESTS:
            raise ValueError(f"rest={rest!r}: one of {', '.join(RESTS)}")
        rank, size = place_in(process_set)
        super().__init__(
            length, batch_size, shuffle=shuffle, seed=seed, tail=rest, rank=rank, size=size
        )
        self.process_set = process_set
        self._rules = (batch_size, int(shuffle), RESTS.index(rest))
        self._goes_on = True  # the next loop begins where the cursor is
        self._said = False

    def place(self) -> tuple[int, int]:
        """This process's rank in the process set, and the size of the set."""
        return self._rank(), self._size()

    @property
    def steps_per_epoch(self) -> int:
        """Of a whole epoch; `len()` is what is left of this one."""
        return self._dealing.left(Position(), self._size())

    def set_epoch(self, epoch: int) -> None:
        """Begins this epoch, or goes on in it if a state of it has just been loaded."""
        if not (self._goes_on and epoch == self.epoch):
            self._go_to(epoch)

    def end_epoch(self, epoch: int) -> None:
        """All steps of this epoch are whole, for what only knows when an epoch ends."""
        self._go_to(epoch + 1)

    def record(self, steps: int = 1) -> None:
        """Counts steps of all ranks that no loop over this object or a view of it has counted."""
        for _ in range(steps):
            self._under_way = self._under_way or self._dealing.step(self._at, self._size())
            self.whole()

    def real(self, rows: int) -> int:
        """How many of the gathered rows of the step under way are no repeats.

        The repeats are the last ones: `everything[: shard.real(len(everything))]`, where
        `everything` is the allgather of what the ranks have of this step. Call it in the loop's
        body: rows of several steps have their repeats among them.
        """
        step = self._under_way
        if step is not None:
            return min(rows, step.total - step.repeats)
        if self._dealing.tail == "drop":
            return rows
        raise ValueError(
            f"hvd.data.shard: real({rows}) is about the step under way, and none is. Call it in "
            "the loop's body, once per batch, on what you gather of that batch: in rows of "
            "several steps the repeats are not the last ones"
        )

    def state_dict(self) -> dict[str, int]:
        state, step = super().state_dict(), self._under_way
        if step is not None:
            repeated = self.repeated + step.repeats
            state |= {"epoch": step.end.epoch, "sample": step.end.sample, "repeated": repeated}
        return state

    def reset(self) -> None:
        super().reset()
        self._goes_on = True

    def start(self) -> None:
        """A loop begins. Raises ValueError on all ranks if they share out different data."""
        self.whole()
        if self._size() > 1:
            self._compare()
        if not self._goes_on and self.sample:
            self._go_to(self.epoch + 1)
        self._goes_on = False
        self._say()

    def _go_to(self, epoch: int) -> None:
        self._under_way = None
        self._at = Position(epoch)
        self._goes_on = True
        self.deal += 1

    def _compare(self) -> None:
        own = (self._dealing.length, *self._rules, self._seed, self._at.epoch, self._at.sample)
        rows = ops.allgather(np.array([own], np.int64), "hvd.data.shard", self.process_set)
        told = difference(rows.tolist())
        if told:
            raise ValueError(f"hvd.data.shard: {told}")

    def _say(self) -> None:
        """The rest of an epoch, once."""
        length, full = self._dealing.length, self._dealing.full(self._size())
        rest, self._said, said = length % full, True, self._said
        if said or not rest or self._rank() != 0:
            return
        what = (
            f"the last step of each epoch repeats {full - rest} samples"
            if self._dealing.tail == "pad"
            else f"the last {rest} samples of each epoch are left out"
        )
        _log.warning(
            "hvd.data.shard: %d samples are no multiple of the %d of a step of %d ranks, so %s "
            "(rest=%r)", length, full, self._size(), what, self._dealing.tail,
        )  # fmt: skip


def place_in(process_set: ProcessSet) -> tuple[Callable[[], int], Callable[[], int]]:
    """What says the rank in the set, and its size. A newcomer of an elastic job has a place in
    the global set only."""
    if process_set.process_set_id == 0:
        return basics.rank, basics.size
    return lambda: process_set.rank() or 0, lambda: process_set.size() or 1


def place_of(process_set: ProcessSet) -> tuple[int, int]:
    """The rank in the set, and its size, now."""
    rank, size = place_in(process_set)
    return rank(), size()
