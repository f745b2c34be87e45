"""Where the job is in its data: `Cursor`, a few numbers that belong to the state.

A cursor moves when a step is complete, not when a batch is fetched:

    begin()    starts the next step and returns its samples
    whole()    completes the step: the cursor stands behind it (`state.step()`, `state.commit()`)
    reset()    a new deal: deals the step in progress anew, and refuses batches of the old deal

Iterating and `track()` call begin() with each batch, and whole() when the program asks for the next
one, unless the state has called it before. If an error or `break` leaves the loop, its step is not
complete, and the next loop deals the batch anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from hvdlite.data.dealing import Dealing, Position, Step
from hvdlite.data.order import Indices, Order, shuffled, straight
from hvdlite.job import basics

Batch = TypeVar("Batch")
Load = Callable[[Indices], Any]


class Cursor:
    """Deals the samples `range(length)` to the ranks, each once per epoch.

    A step of n ranks takes `batch_size` samples for each rank, or `global_batch` in all; then
    the ranks' parts differ by one at most, and a part is empty where there are fewer samples than
    ranks. The order of an epoch depends on `seed` and its number alone.

    `tail` says what becomes of the rest of an epoch that does not fill a step:

    * `"pad"`: samples are repeated; `repeated` counts them.
    * `"drop"`: it is left out.
    * `"carry"`: it opens the next epoch.
    * `"short"`: the last step has fewer samples; only with `global_batch`.
    """

    def __init__(self, length: int, batch_size: int | None = None, *,
                 global_batch: int | None = None, shuffle: bool = True, seed: int = 0,
                 tail: str = "pad", rank: Callable[[], int] | None = None,
                 size: Callable[[], int] | None = None) -> None:  # fmt: skip
        """`rank` and `size` say where this process is in the job; the default is the job's own."""
        self.deal = 0
        self.repeated = 0  # samples that `tail="pad"` has dealt twice
        self._dealing = Dealing(length, batch_size, global_batch, tail)
        self._seed = seed
        self._rank = rank or basics.rank
        self._size = size or basics.size
        self._at = Position()
        self._under_way: Step | None = None
        self._orders = Orders(length, seed, shuffle)

    # Where it is.

    @property
    def epoch(self) -> int:
        """Of the next step."""
        return self._dealing.next_begin(self._at, self._size()).epoch

    @property
    def sample(self) -> int:
        """Of its epoch's order, with which the next step begins."""
        return self._dealing.next_begin(self._at, self._size()).sample

    @property
    def weight(self) -> float:
        """What to multiply this rank's mean loss with, in the step under way or else the next."""
        step = self._under_way or self._dealing.step(self._at, self._size())
        return self._dealing.weight(step, self._rank(), self._size())

    def __len__(self) -> int:
        """The steps that are left in this epoch."""
        return self._dealing.left(self._at, self._size())

    def start(self) -> None:
        """A loop begins, at the first step that is not whole."""
        self._under_way = None

    def begin(self, further: bool = False) -> Indices:
        """The next step is under way. Returns this rank's samples. `further`: behind the one that
        is under way already, and whole with it."""
        at = self._under_way.end if further and self._under_way else self._at
        self._under_way = self._dealing.step(at, self._size())
        return self.ahead().samples(self._under_way)

    def epoch_ahead(self) -> int:
        """Of the step behind the one under way."""
        at = self._under_way.end if self._under_way else self._at
        return self._dealing.next_begin(at, self._size()).epoch

    def skip_rest(self) -> None:
        """The next step is the first of the next epoch."""
        self._at, self._under_way = Position(self.epoch + 1), None

    def whole(self) -> None:
        """The step under way is whole, if there is one."""
        step, self._under_way = self._under_way, None
        if step is not None:
            self._at = step.end
            self.repeated += step.repeats

    def reset(self) -> None:
        """The world has changed: what is not whole is dealt anew."""
        self.deal += 1
        self._under_way = None

    def state_dict(self) -> dict[str, int]:
        return {
            "epoch": self._at.epoch, "sample": self._at.sample, "repeated": self.repeated,
            "length": self._dealing.length, "seed": self._seed,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """A new deal from there on. Raises ValueError for the state of other data."""
        for name, mine in (("length", self._dealing.length), ("seed", self._seed)):
            if state[name] != mine:
                raise ValueError(f"the state is of a Cursor with {name} {state[name]}, not {mine}")
        if not 0 <= state["sample"] < self._dealing.length or state["epoch"] < 0:
            raise ValueError(f"{dict(state)} is not a position in {self._dealing.length} samples")
        self._at = Position(state["epoch"], state["sample"])
        self.repeated = state["repeated"]
        self.reset()

    # Iterating.

    def __iter__(self) -> Iterator[Indices]:
        """This rank's samples, step by step, of the rest of the epoch. Each turn is a step."""
        self.start()
        epoch = self.epoch
        while self.epoch <= epoch:
            yield self.begin()
            self.whole()

    def batches(self) -> Batches:
        """For torch's `DataLoader(batch_sampler=...)`; the loader may be ahead of the cursor."""
        return Batches(self)

    def track(self, loader: Iterable[Batch], epochs: int | None = None) -> Iterator[Batch]:
        """The loader's batches, each turn of the loop a step, until so many epochs have passed.

        None: to the end of the present one. The loader follows `batches()` or
        `indices_dataset()`; it is begun anew for each epoch and after each reset.
        """
        self.start()
        end = self.epoch + 1 if epochs is None else epochs
        while self.epoch < end:
            yield from self._rest_of_epoch(loader)

    def _rest_of_epoch(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        deal, expected, had = self.deal, len(self), 0
        for batch in loader:
            if deal != self.deal:
                return  # it was fetched before the reset
            if had == expected:
                raise ValueError(_other_loader(f"more than the {expected} batches"))
            self.begin()
            had += 1
            yield batch
            self.whole()
        if deal == self.deal and had < expected:
            raise ValueError(_other_loader(f"{had} of the {expected} batches"))

    def keras(self, x: Any, y: Any = None, **options: Any) -> Any:
        """A Keras `PyDataset` of `(x[indices], y[indices])`, or of what `x(indices)` loads.

        One `fit` has one length for all its epochs: after a reset call it for one epoch at a time,
        with `initial_epoch=cursor.epoch, epochs=cursor.epoch + 1`. Callbacks call `begin()`
        at a batch's begin and `whole()` at its end. `options`: of PyDataset, as `workers`.
        """
        load: Load = x if callable(x) else lambda indices: _taken(x, y, indices)
        return _keras_dataset(self.ahead, load, options)

    def indices_dataset(self) -> Any:
        """A `tf.data.Dataset` of this rank's samples, a vector per step. Map and track it.

        Each iteration deals the rest of the epoch in which it begins."""
        import tensorflow as tf

        signature = tf.TensorSpec([None], tf.int64)
        return tf.data.Dataset.from_generator(
            lambda: iter(self.ahead()), output_signature=signature
        )

    def ahead(self) -> Ahead:
        """This rank's samples in the rest of the epoch. Nothing moves."""
        deal, place = self.deal, (self._rank(), self._size())
        return Ahead(self._dealing, self._orders, self._at, place, lambda: deal == self.deal)


class Batches:
    """The batches of the rest of the epoch, as lists: what torch calls a batch sampler."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def __len__(self) -> int:
        return len(self._cursor)

    def __iter__(self) -> Iterator[list[int]]:
        for indices in self._cursor.ahead():
            yield indices.tolist()


def _taken(x: Any, y: Any, indices: Indices) -> Any:
    return (x[indices],) if y is None else (x[indices], y[indices])


def _other_loader(yielded: str) -> str:
    return (
        f"the loader has yielded {yielded} that the cursor has dealt: make it with "
        "batch_sampler=cursor.batches(), or from cursor.indices_dataset() without repeat or batch"
    )


# ---- A rank's samples in the steps to come, for readers that are ahead of the training


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
            return straight
        found = self._kept.get(epoch)
        if found is None:
            found = shuffled(self._length, self._seed, epoch)
            beside = {e: o for e, o in self._kept.items() if abs(e - epoch) == 1}
            self._kept = {**beside, epoch: found}
        return found


class Ahead:
    """The rest of an epoch from one place on, as one rank of a world of one size sees it.

    It stays as it is while the cursor moves on. `is_current` turns False with the deal.
    """

    def __init__(self, dealing: Dealing, orders: Orders, at: Position, place: tuple[int, int],
                 is_current: Callable[[], bool]) -> None:  # fmt: skip
        """`place`: rank and size."""
        self.is_current = is_current
        self._rank, self._size = place
        self._dealing = dealing
        self._orders = orders
        self._at = dealing.next_begin(at, self._size)

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


# ---- The same as a data set of Keras, which is imported when it is asked for


def _keras_dataset(ahead: Callable[[], Ahead], load: Load, options: Mapping[str, Any]) -> Any:
    """Keras asks for batches by number, from several threads and ahead of the training."""
    import keras

    class RestOfEpoch(keras.utils.PyDataset):  # type: ignore[misc]
        """The rest of one epoch; each epoch is dealt at its begin."""

        def __init__(self) -> None:
            super().__init__(**options)
            self._dealt = ahead()

        def __len__(self) -> int:
            return len(self._present())

        def __getitem__(self, number: int) -> Any:
            return load(self._present()[number])

        def on_epoch_begin(self) -> None:
            self._dealt = ahead()

        on_epoch_end = on_epoch_begin

        def _present(self) -> Ahead:
            if not self._dealt.is_current():
                self._dealt = ahead()
            return self._dealt

    return RestOfEpoch()
