"""A DataFrame becomes Parquet files in a Store, of which each rank reads its part."""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hvdlite.spark.common.store import Store

# Rows of one group of a Parquet file: what a rank reads at the edge of its part.
_GROUP_ROWS = 1 << 14


@dataclass(frozen=True)
class Written:
    """How many rows a DataFrame has given to each purpose."""

    train: int
    validation: int


def as_arrays(frame: Any) -> Any:
    """Returns the DataFrame with an array in place of each of MLlib's vectors."""
    from pyspark.ml.functions import vector_to_array

    columns = [
        vector_to_array(frame[field.name]).alias(field.name) if is_vector(field) else
        frame[field.name]
        for field in frame.schema.fields
    ]  # fmt: skip
    return frame.select(*columns)


def is_vector(field: Any) -> bool:
    return type(field.dataType).__name__ == "VectorUDT"


def check_columns(there: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises ValueError if the DataFrame lacks a column."""
    missing = [name for name in wanted if name not in there]
    if missing:
        raise ValueError(
            f"the DataFrame has no column {', '.join(missing)}, only {', '.join(there)}"
        )


def write(
    frame: Any,
    columns: Sequence[str],
    validation: float | str | None,
    store: Store,
    paths: tuple[str, str],
    partitions: int,
    seed: int,
) -> Written:
    """Writes these columns below `paths`: for training and for validation.

    `validation`: the part of the rows that is drawn for it, or the column that is true for them.
    One job of Spark writes both, so a row that Spark computes twice is in one of them only.
    """
    kept = list(dict.fromkeys([*columns, validation] if isinstance(validation, str) else columns))
    check_columns(frame.columns, kept)
    frame = as_arrays(frame.select(*kept)).repartition(partitions)
    for path in paths:
        store.delete(path)
    writes = _writer(store, paths, list(columns), validation, seed)
    found = frame.mapInArrow(writes, "purpose int, name string, rows long").collect()
    for purpose, path in enumerate(paths):
        names = {row["name"] for row in found if row["purpose"] == purpose}
        for file, _ in store.parquet_files(path) if names else ():
            if posixpath.basename(file) not in names:
                store.delete(file)  # by an attempt of a task that has failed
    rows = [sum(row["rows"] for row in found if row["purpose"] == p) for p in (0, 1)]
    return Written(*rows)


def _writer(
    store: Store,
    paths: tuple[str, str],
    columns: list[str],
    validation: float | str | None,
    seed: int,
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def hvdlite_write(batches: Iterator[Any]) -> Iterator[Any]:
        from hvdlite.spark.common import data

        yield from data.write_partition(batches, store, paths, columns, validation, seed)

    return hvdlite_write


def write_partition(
    batches: Iterator[Any],
    store: Store,
    paths: tuple[str, str],
    columns: list[str],
    validation: float | str | None,
    seed: int,
) -> Iterator[Any]:
    """Runs in a task of Spark."""
    import numpy
    import pyarrow
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    random = numpy.random.default_rng([seed, partition])
    parts: list[list[Any]] = [[], []]
    for batch in batches:
        mine = _for_validation(batch, validation, random)
        chosen = batch.select(columns)
        parts[0].append(chosen.filter(pyarrow.array(~mine)))
        parts[1].append(chosen.filter(pyarrow.array(mine)))
    for purpose, path in enumerate(paths):
        rows = sum(part.num_rows for part in parts[purpose])
        if rows:
            name = f"part-{partition:05d}-{uuid.uuid4().hex}.parquet"
            _write_file(store, posixpath.join(path, name), parts[purpose])
            yield pyarrow.RecordBatch.from_pydict(
                {
                    "purpose": pyarrow.array([purpose], pyarrow.int32()),
                    "name": [name],
                    "rows": pyarrow.array([rows], pyarrow.int64()),
                }
            )


def _write_file(store: Store, path: str, batches: list[Any]) -> None:
    import pyarrow
    import pyarrow.parquet

    fs = store.fs
    fs.makedirs(posixpath.dirname(path), exist_ok=True)
    with fs.open(path, "wb") as file:
        table = pyarrow.Table.from_batches(batches)
        pyarrow.parquet.write_table(table, file, row_group_size=_GROUP_ROWS)


def _for_validation(batch: Any, validation: float | str | None, random: Any) -> Any:
    """Returns for each row whether it is for validation."""
    import numpy

    if validation is None:
        return numpy.zeros(batch.num_rows, bool)
    if isinstance(validation, str):
        column = batch.column(batch.schema.get_field_index(validation))
        return column.to_numpy(zero_copy_only=False).astype(bool)
    return random.random(batch.num_rows) < validation


def part(rows: int, rank: int, size: int) -> tuple[int, int]:
    """Returns the first row of a rank and the one behind its last. Pure."""
    return rows * rank // size, rows * (rank + 1) // size


def most(rows: int, size: int) -> int:
    """Returns how many rows the largest part has. Pure."""
    return -(-rows // size)


def count(store: Store, path: str) -> int:
    """Returns how many rows there are below a path."""
    return sum(rows for _, rows in _footers(store, path))


def read(store: Store, path: str, rank: int, size: int, columns: Sequence[str] | None) -> Any:
    """Returns a rank's rows as a pyarrow.Table. Raises ValueError if there are fewer rows than
    ranks, and FileNotFoundError for a file that is gone."""
    import pyarrow
    import pyarrow.parquet

    files = _footers(store, path)
    rows = sum(number for _, number in files)
    if rows < size:
        raise ValueError(
            f"{path} has {rows} rows, and {size} ranks are to train on them: start fewer processes "
            "(num_proc), or give them more data."
        )
    first, end = part(rows, rank, size)
    begin, found, fs = 0, [], store.fs
    for name, number in files:
        low, high = max(first - begin, 0), min(end - begin, number)
        begin += number
        if low < high:
            with fs.open(name, "rb") as file:
                table = pyarrow.parquet.read_table(file, columns=None if columns is None else
                                                   list(columns))  # fmt: skip
            found.append(table.slice(low, high - low))
    return pyarrow.concat_tables(found)


def _footers(store: Store, path: str) -> list[tuple[str, int]]:
    """Returns the files below a path, and how many rows each has."""
    import pyarrow.parquet

    fs, found = store.fs, []
    files = store.parquet_files(path)
    if not files:
        raise FileNotFoundError(f"there is no Parquet file below {path}")
    for name, _ in files:
        with fs.open(name, "rb") as file:
            found.append((name, pyarrow.parquet.ParquetFile(file).metadata.num_rows))
    return found


def array(table: Any, column: str) -> Any:
    """Returns a column as an array of numpy, whose rows have one length. Raises ValueError with the
    column's name."""
    import numpy
    import pyarrow

    index = table.schema.get_field_index(column)
    if index < 0:
        raise ValueError(f"the data have no column {column}, only {', '.join(table.schema.names)}")
    values = table.column(index)
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pyarrow.ChunkedArray):
        values = pyarrow.concat_arrays(values.chunks)
    shape = [len(values)]
    while True:
        if values.null_count:
            raise ValueError(f"column {column} has {values.null_count} rows without a value")
        if not (pyarrow.types.is_list(values.type) or pyarrow.types.is_large_list(values.type)
                or pyarrow.types.is_fixed_size_list(values.type)):  # fmt: skip
            break
        inner = values.flatten()
        lengths = numpy.unique(pyarrow.compute.list_value_length(values).to_numpy())
        if len(lengths) > 1:
            raise ValueError(
                f"column {column} has arrays of different lengths, from {lengths[0]} to "
                f"{lengths[-1]}: pad them, or use transformation_fn"
            )
        shape.append(int(lengths[0]) if len(lengths) else 0)
        values = inner
    return values.to_numpy(zero_copy_only=False).reshape(shape)
