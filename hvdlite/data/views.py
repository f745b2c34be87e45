"""`shard()`: the same kind of object, for this rank.

What a training loop takes batches from gets a cursor; what is only looked into by number, such as
an array or a list of files, is cut down to this rank's part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.data.wish import Wish


class View(NamedTuple):
    """Which objects have which view. The view is imported when there is such an object."""

    library: str
    kind: str  # a class of the library
    view: str  # a function of hvdlite.data


#: The first row that fits is taken: a data set of datasets may be one of torch, too.
VIEWS = (
    View("datasets", "Dataset", "of_datasets:part"),
    View("datasets", "IterableDataset", "of_datasets:stream"),
    View("webdataset", "DataPipeline", "of_webdataset:refuse"),
    View("grain", "MapDataset", "of_grain:part"),
    View("grain", "IterDataset", "of_grain:refuse"),
    View("tensorflow", "data.Dataset", "of_tensorflow:dataset"),
    View("keras", "utils.PyDataset", "of_keras:dataset"),
    View("torch.utils.data", "DataLoader", "of_torch:loader"),
    View("torch.utils.data", "IterableDataset", "of_torch:stream"),
    View("torch.utils.data", "Dataset", "of_torch:part"),
)


def shard(
    data: Any,
    batch_size: int | None = None,
    *,
    shuffle: bool | None = None,
    seed: int = 0,
    rest: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns `data` for this rank: each sample once per epoch, equally many batches on each rank.

    `data` is a DataLoader, Dataset or IterableDataset of torch, a tf.data.Dataset, a Keras
    PyDataset, a Dataset or IterableDataset of Hugging Face, a MapDataset of grain, a numpy array, a
    dict or tuple of arrays, or a list, such as one of file names. All ranks call this with the same
    data. `batch_size` is for arrays: with it they become batches, and without it this rank's rows.

    `shuffle` and `rest` are as the object has them; arrays are shuffled. `rest="pad"`, otherwise
    the default, repeats samples where they do not divide evenly, and `"drop"` leaves the rest out.
    """
    view = _view_of(data)
    return view(data, Wish(shuffle, seed, rest, batch_size, process_set))


def _view_of(data: Any) -> Callable[[Any, Wish], Any]:
    for row in VIEWS:
        kind = _loaded(row)
        if kind is not None and isinstance(data, kind):
            return _function(row.view)
    return _function("of_arrays:view")


def _loaded(row: View) -> Any:
    """The class, if a program that has an object of it can have imported it."""
    found: Any = sys.modules.get(row.library)
    for name in row.kind.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) else None


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(f"hvdlite.data.{module}"), function)
