"""A rank's rows in memory, batch by batch. Needs no framework."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hvdlite.spark.common import data
from hvdlite.spark.common.store import Store

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Training:
    """What the ranks of an Estimator do, besides what their framework needs."""

    store: Store
    train_path: str
    val_path: str | None
    run_id: str
    features: Sequence[str]
    labels: Sequence[str]
    weight: str | None
    transformation: Callable[[Any], Any] | None
    batch_size: int
    val_batch_size: int
    epochs: int
    steps: int | None
    val_steps: int | None
    shuffle: bool
    seed: int
    verbose: int
    use_gpu: bool

    @property
    def columns(self) -> list[str]:
        return columns_of(self.features, self.labels, self.weight)

    @property
    def checkpoint(self) -> str:
        """The path of the run's checkpoint."""
        name = f"{self.store.get_checkpoint_filename()}.ckpt"
        return posixpath.join(self.store.get_checkpoint_path(self.run_id), name)

    def read(self, path: str, rank: int, size: int) -> dict[str, Any]:
        """Returns a rank's part of the rows, by column."""
        wanted = None if self.transformation else self.columns
        table = data.read(self.store, path, rank, size, wanted)
        if self.transformation is not None:
            import pyarrow

            table = pyarrow.Table.from_pandas(self.transformation(table.to_pandas()))
        return {name: data.array(table, name) for name in self.columns}


def columns_of(features: Sequence[str], labels: Sequence[str], weight: str | None) -> list[str]:
    """Each once: an autoencoder's features are its labels."""
    return list(dict.fromkeys([*features, *labels, *([weight] if weight else [])]))


def rows_of(arrays: Arrays) -> int:
    return len(next(iter(arrays.values())))


def batches(
    arrays: Arrays, batch_size: int, rows: int, steps: int | None = None, random: Any = None
) -> Iterator[dict[str, Any]]:
    """Yields the batches of one epoch. `rows`: of the rank that has most of them; the others repeat
    some of theirs, so that all ranks take the same number of steps. `steps`: so many batches
    instead. `random`: shuffles."""
    own = rows_of(arrays)
    order = np.arange(own) if random is None else random.permutation(own)
    total = rows if steps is None else steps * batch_size
    for start in range(0, total, batch_size):
        index = order[np.arange(start, min(start + batch_size, total)) % own]
        yield {name: values[index] for name, values in arrays.items()}


def shaped(values: Any, shape: Sequence[int] | None) -> Any:
    """Returns the rows of a column in the shape that the user has given; its first number is that
    of rows, or left out."""
    if shape is None:
        return values
    inside = list(shape)[1:] if len(shape) and shape[0] == -1 else list(shape)
    return values.reshape([len(values), *inside])
