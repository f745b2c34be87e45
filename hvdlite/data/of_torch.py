"""DataLoaders and data sets of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    SequentialSampler,
    Subset,
)

from hvdlite.data.cursor import Cursor
from hvdlite.data.dealing import dealt
from hvdlite.data.of_arrays import part_of
from hvdlite.data.sharding import Shard
from hvdlite.data.views import Counted, ShardRequest, leave_alone


def part(dataset: Dataset[Any], request: ShardRequest) -> Subset[Any]:
    request.without_batch_size("a Dataset: make a DataLoader of it and share that out")
    return Subset(dataset, part_of(len(dataset), request).tolist())  # type: ignore[arg-type]


def stream(examples: IterableDataset[Any], request: ShardRequest) -> Any:
    request.for_streams("an IterableDataset")
    if type(examples) is Stream:
        return leave_alone(examples, "an IterableDataset", "shard() has")
    return Stream(examples, request.place(), request.rest or "pad")


def loader(given: DataLoader[Any], request: ShardRequest) -> DataLoader[Any]:
    """A copy of the loader, of a class that derives from the loader's own."""
    request.without_batch_size("a DataLoader")
    other = _shared_out(given, request.place()[1])
    if other:
        return leave_alone(given, "a DataLoader", other)
    if isinstance(given.dataset, IterableDataset):
        return _copy(given, _OfStream, dataset=stream(given.dataset, request), _done=0)
    shard = _shard_of(given, request)
    sampler = ShardSampler(given.dataset, shard)
    batches = ShardBatchSampler(sampler, given.batch_size or 1, given.drop_last)
    return _copy(given, _OfSamples, shard=shard, sampler=sampler, batch_sampler=batches)


def _copy(given: DataLoader[Any], mixin: type | None, **changed: Any) -> DataLoader[Any]:
    """With all options of the loader, whatever they are in this version of torch."""
    own: Any = type(given)
    kind: Any = own if mixin is None else _derived(mixin, own)
    made: DataLoader[Any] = kind.__new__(kind)
    vars(made).update(vars(given), _iterator=None, **changed)
    return made


def _shard_of(given: DataLoader[Any], request: ShardRequest) -> Shard:
    sampler: Any = given.sampler
    length = len(given.dataset)  # type: ignore[arg-type]
    straight = isinstance(sampler, SequentialSampler)
    shuffled = (
        type(sampler).__name__ == "RandomSampler"  # torch's, or torchdata's
        and not sampler.replacement
        and len(sampler) == length
    )
    if given.batch_size is None:
        raise ValueError(
            "hvd.data.shard takes a DataLoader with batch_size, and not with a batch_sampler of "
            "its own: use hvd.data.Shard(len(dataset), batch_size).batches() as batch_sampler"
        )
    if not (straight or shuffled) and request.shuffle is None:
        raise ValueError(
            f"the DataLoader has a {type(sampler).__name__}, whose order hvd.data.shard would "
            "replace by its own: pass shuffle=True or shuffle=False if that is what you want"
        )
    rest = "drop" if given.drop_last else "pad"
    return request.dealt(length, given.batch_size, shuffle=shuffled, rest=rest)


def _shared_out(given: DataLoader[Any], size: int) -> str:
    """What has shared the loader out to the ranks already, with its verb; empty: nothing."""
    if isinstance(given, (_OfSamples, _OfStream)):
        return "shard() has"
    if type(given).__module__.partition(".")[0] == "accelerate":
        return "Accelerate has"
    for sampler in (given.sampler, given.batch_sampler, getattr(given.batch_sampler, "sampler", 0)):
        ranks = getattr(sampler, "num_replicas", None)
        if ranks is not None and ranks != size:
            raise ValueError(
                f"the DataLoader's {type(sampler).__name__} shares it out to {ranks} ranks, but "
                f"there are {size}: make the DataLoader without a sampler"
            )
        if ranks is not None:
            return f"its {type(sampler).__name__} has"
    return ""


# ---- for a Cursor, which deals the data set whatever the number of ranks becomes


class OrderOf(NamedTuple):
    """The order of a loader's samples, of all ranks."""

    length: int
    shuffle: bool
    seed: int


def order_of(given: DataLoader[Any]) -> OrderOf:
    """ValueError for a loader whose samples a Cursor cannot deal."""
    sampler: Any = given.sampler
    kind = type(sampler).__name__
    if isinstance(given.dataset, IterableDataset) or given.batch_size is None:
        raise ValueError(
            "the loader needs a data set whose samples have numbers, a batch_size, and no "
            "batch_sampler of its own"
        )
    if type(given).__module__.partition(".")[0] == "accelerate":
        raise ValueError(
            "Accelerate has shared out this loader: pass the one that was given to prepare()"
        )
    length = len(given.dataset)  # type: ignore[arg-type]
    if isinstance(sampler, DistributedSampler):
        return OrderOf(length, sampler.shuffle, sampler.seed)
    if not isinstance(sampler, SequentialSampler) and kind != "RandomSampler":
        raise ValueError(f"the loader has a {kind}, whose order would be lost")
    return OrderOf(length, kind == "RandomSampler", 0)


def by_cursor(given: DataLoader[Any], cursor: Cursor) -> DataLoader[Any]:
    """A copy of the loader with the cursor's batches."""
    return _copy(given, None, batch_sampler=cursor.batches())


@cache
def _derived(mixin: type, kind: Any) -> type:
    return type(f"Shard{kind.__name__}", (mixin, kind), {})


class ShardSampler(DistributedSampler[Any]):
    """What trainers look for, so that they do not share out the data a second time."""

    def __init__(self, dataset: Dataset[Any], shard: Shard) -> None:
        rank, size = shard.place()
        super().__init__(dataset, size, rank)
        self.shard = shard

    def __iter__(self) -> Iterator[Any]:
        for indices in self.shard.ahead():
            yield from indices.tolist()

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.shard.set_epoch(epoch)


class ShardBatchSampler(BatchSampler):
    """The batches of the rest of the epoch, for the loader that counts them."""

    def __init__(self, order: ShardSampler, batch_size: int, drop_last: bool) -> None:
        super().__init__(order, batch_size, drop_last)
        self.shard = order.shard
        self.counted = False  # the loop goes by the loader of shard()

    def __len__(self) -> int:
        return self.shard.steps_per_epoch

    def __iter__(self) -> Iterator[list[int]]:
        if not self.counted:
            raise ValueError(
                "another loader takes the batches of a DataLoader that hvd.data.shard has shared "
                "out, and would share them out again: do not pass it to accelerator.prepare()"
            )
        return (indices.tolist() for indices in self.shard.ahead())


class _Epoch:
    """The loader's own iteration, as often as it is asked for."""

    def __init__(self, iterate: Callable[[], Iterator[Any]], batches: ShardBatchSampler) -> None:
        self._iterate = iterate
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        self._batches.counted = True
        try:
            return self._iterate()
        finally:
            self._batches.counted = False


class _OfSamples(Counted):
    """A DataLoader of a data set whose samples have numbers."""

    batch_sampler: ShardBatchSampler

    def __iter__(self) -> Iterator[Any]:
        iterate: Callable[[], Iterator[Any]] = super().__iter__  # type: ignore[misc]
        return self.shard.track(_Epoch(iterate, self.batch_sampler))


class Stream(IterableDataset[Any]):
    """Of each group of examples, as many as there are ranks, one."""

    def __init__(self, examples: IterableDataset[Any], place: tuple[int, int], rest: str) -> None:
        self.examples = examples
        self.rank, self.size = place
        self.rest = rest
        self.done = 0  # examples of all ranks, which the next loop leaves out

    def __iter__(self) -> Iterator[Any]:
        return dealt(self.examples, self.rank, self.size, self.rest, self.done)

    def set_epoch(self, epoch: int) -> None:
        if hasattr(self.examples, "set_epoch"):
            self.examples.set_epoch(epoch)


class _OfStream:
    """A DataLoader of a data set without numbers."""

    dataset: Stream
    batch_size: int | None
    num_workers: int
    _done: int

    def __iter__(self) -> Iterator[Any]:
        return self._counted(super().__iter__())  # type: ignore[misc]

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The iterator has been made: it, or its workers, know what to leave out."""
        self._done, self.dataset.done = self.dataset.done, 0
        for batch in batches:
            self._done += (self.batch_size or 1) * self.dataset.size
            yield batch
        self._done = 0

    def set_epoch(self, epoch: int) -> None:
        self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, int]:
        """Examples of all ranks that are done in this epoch."""
        self._check_workers()
        return {"done": self._done}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """The next loop reads so many examples and leaves them out. All ranks read the same."""
        self._check_workers()
        self.dataset.done = state["done"]

    def _check_workers(self) -> None:
        if self.num_workers > 1 or getattr(self, "persistent_workers", False):
            raise ValueError(
                "the place in an IterableDataset is known only with num_workers=0, or 1 that is "
                "not persistent: each worker has a stream of its own. Use these, or a Dataset "
                "whose samples have numbers, which goes on exactly with any number of workers "
                "and ranks"
            )
