"""`shard()`: the same kind of object, for this rank.

What a training loop takes batches from gets a cursor; what is only looked into by number, such as
an array or a list of files, is cut down to this rank's part.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.data.sharding import Shard, place_of

_log = logging.getLogger("hvdlite")


#: A library, a class of it, and the function of hvdlite.data that makes the view of its objects,
#: whose module is imported when there is such an object. The first row that fits is taken: a data
#: set of datasets may be one of torch, too.
VIEWS = (
    ("datasets", "Dataset", "of_others:hugging_face"),
    ("datasets", "IterableDataset", "of_others:hugging_face_stream"),
    ("webdataset", "DataPipeline", "of_others:refuse_webdataset"),
    ("grain", "MapDataset", "of_others:grain_map"),
    ("grain", "IterDataset", "of_others:refuse_grain_iter"),
    ("tensorflow", "data.Dataset", "of_tensorflow:dataset"),
    ("keras", "utils.PyDataset", "of_keras:dataset"),
    ("torch.utils.data", "DataLoader", "of_torch:loader"),
    ("torch.utils.data", "IterableDataset", "of_torch:stream"),
    ("torch.utils.data", "Dataset", "of_torch:part"),
)


def shard(data: Any, batch_size: int | None = None, *, shuffle: bool | None = None, seed: int = 0,
          rest: str | None = None,
          process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Returns `data` for this rank: each sample once per epoch, equally many batches on each rank.

    `data` is a DataLoader, Dataset or IterableDataset of torch, a tf.data.Dataset, a Keras
    PyDataset, a Dataset or IterableDataset of Hugging Face, a MapDataset of grain, a numpy array, a
    dict or tuple of arrays, or a list, such as one of file names. All ranks call this with the same
    data. `batch_size` is for arrays: with it they become batches, and without it this rank's rows.

    `shuffle` and `rest` are as the object has them; arrays are shuffled. `rest="pad"`, otherwise
    the default, repeats samples where they do not divide evenly, and `"drop"` leaves the rest out.
    """
    found = (view for library, kind, view in VIEWS if isinstance(data, _loaded(library, kind)))
    module, _, function = next(found, "of_arrays:view").partition(":")
    view = getattr(import_module(f"hvdlite.data.{module}"), function)
    return view(data, ShardRequest(shuffle, seed, rest, batch_size, process_set))


def _loaded(library: str, kind: str) -> Any:
    """The class; () where the program cannot have an object of it, and has not imported it."""
    found: Any = sys.modules.get(library)
    for name in kind.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) else ()


# ---- For the views


@dataclass(frozen=True)
class ShardRequest:
    """The arguments of shard(). None: as the object itself has it."""

    shuffle: bool | None
    seed: int
    rest: str | None
    batch_size: int | None
    process_set: ProcessSet

    def place(self) -> tuple[int, int]:
        return place_of(self.process_set)

    def dealt(self, length: int, batch_size: int, shuffle: bool = True, rest: str = "pad") -> Shard:
        """The last two are what the object itself has."""
        shuffle = shuffle if self.shuffle is None else self.shuffle
        return Shard(length, batch_size, shuffle=shuffle, seed=self.seed, rest=self.rest or rest,
                     process_set=self.process_set)  # fmt: skip

    def for_streams(self, what: str) -> None:
        """Raises ValueError if it asks for what only samples with numbers can have."""
        if self.shuffle:
            raise ValueError(
                f"hvd.data.shard cannot shuffle {what}: shuffle it before, with the same seed on "
                "all ranks, or shuffle what shard() returns"
            )
        self.without_batch_size(what)

    def without_batch_size(self, what: str) -> None:
        if self.batch_size is not None:
            raise ValueError(
                f"hvd.data.shard takes batch_size for arrays only, and this is {what}: it has a "
                "batch size of its own, or none"
            )


def leave_alone(data: Any, what: str, other_has: str) -> Any:
    """Returns the data, and says what has shared it out already."""
    _log.warning("hvd.data.shard: %s stays as it is: %s shared it out already", what, other_has)
    return data


class Counted:
    """A view whose batches are those of `shard`, which counts them as the loop takes them."""

    shard: Shard

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def __len__(self) -> int:
        """The steps of a whole epoch."""
        return self.shard.steps_per_epoch

    def set_epoch(self, epoch: int) -> None:
        """Begins this epoch, or goes on in it if a state of it has just been loaded."""
        self.shard.set_epoch(epoch)

    def state_dict(self) -> dict[str, int]:
        """Where all ranks are in the data. It is the same on each rank, for any number of them."""
        return self.shard.state_dict()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """The next loop goes on there, with this number of ranks."""
        self.shard.load_state_dict(state)
