"""Stores, and which rows each rank gets, without a session of Spark."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason='pip install ".[spark]": pyspark is not installed')
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from hvdlite.spark.common import data, rows, store  # noqa: E402
from hvdlite.spark.common.store import (  # noqa: E402
    DBFSLocalStore,
    FilesystemStore,
    HDFSStore,
    LocalStore,
    Store,
)


@pytest.mark.parametrize(
    ("path", "kind", "prefix"),
    [
        ("/a/b/", LocalStore, "/a/b"),
        ("file:///a/b", LocalStore, "/a/b"),
        ("s3://bucket/run", FilesystemStore, "s3://bucket/run"),
        ("hdfs://name:8020/run", HDFSStore, "hdfs://name:8020/run"),
        ("dbfs:/run", DBFSLocalStore, "/dbfs/run"),
        ("file:///dbfs/run", DBFSLocalStore, "/dbfs/run"),
    ],
)
def test_the_path_chooses_the_store(path: str, kind: type[Store], prefix: str) -> None:
    found = Store.create(path)
    assert type(found) is kind and found.prefix_path == prefix
    assert found.get_checkpoint_path("r") == f"{prefix}/runs/r/checkpoint"
    assert found.get_logs_path("r") == f"{prefix}/runs/r/logs"
    assert found.get_train_data_path() == f"{prefix}/intermediate_train_data"
    assert found.get_val_data_path(3) == f"{prefix}/intermediate_val_data.3"


@pytest.fixture(params=["local", "memory"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A folder, and a file system that fsspec alone knows."""
    if request.param == "local":
        return Store.create(str(tmp_path))
    return Store.create(f"memory://{uuid.uuid4().hex}")


def test_a_store_keeps_files(any_store: Store) -> None:
    path = f"{any_store.get_checkpoint_path('run')}/checkpoint.ckpt"
    assert not any_store.exists(path) and any_store.get_checkpoints("run") == []
    any_store.write(path, b"one")
    any_store.write(path, b"two")
    assert any_store.read(path) == b"two" and len(any_store.get_checkpoints("run")) == 1
    any_store.delete(any_store.get_run_path("run"))
    any_store.delete(any_store.get_run_path("run"))
    assert not any_store.exists(path)


def _fill(where: Store, files: tuple[int, ...]) -> str:
    """Files with so many rows; column n counts them."""
    path, begin = where.get_train_data_path(), 0
    for number, count in enumerate(files):
        batch = pyarrow.RecordBatch.from_pydict({"n": list(range(begin, begin + count))})
        data._write_file(where, f"{path}/part-{number:05d}.parquet", [batch])
        begin += count
    where.write(f"{path}/_SUCCESS", b"")
    return path


@pytest.mark.parametrize("files", [(10,), (3, 1, 6), (1, 1, 1, 20)])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_each_row_has_one_rank(any_store: Store, files: tuple[int, ...], size: int) -> None:
    path = _fill(any_store, files)
    found = [data.read(any_store, path, rank, size, ["n"]) for rank in range(size)]
    numbers = [number for table in found for number in data.array(table, "n").tolist()]
    assert numbers == list(range(sum(files)))
    counts = [table.num_rows for table in found]
    assert max(counts) - min(counts) <= 1


def test_fewer_rows_than_ranks_and_files_that_are_gone(any_store: Store) -> None:
    path = _fill(any_store, (2,))
    with pytest.raises(ValueError, match="has 2 rows, and 3 ranks are to train on them"):
        data.read(any_store, path, 0, 3, ["n"])
    any_store.delete(path)
    with pytest.raises(FileNotFoundError, match="no Parquet file below .*intermediate_train"):
        data.read(any_store, path, 0, 1, ["n"])


def _table(**columns: Any) -> Any:
    return pyarrow.table(columns)


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ([1.5, 2.5], (2,)),
        ([[1, 2, 3], [4, 5, 6]], (2, 3)),
        ([[[1], [2]], [[3], [4]], [[5], [6]]], (3, 2, 1)),
        (pyarrow.FixedSizeListArray.from_arrays(pyarrow.array([1, 2, 3, 4]), 2), (2, 2)),
    ],
)
def test_columns_become_arrays(values: Any, shape: tuple[int, ...]) -> None:
    table = _table(x=values)
    twice = pyarrow.concat_tables([table, table])
    found = data.array(twice, "x")
    assert found.shape == (2 * shape[0], *shape[1:])
    assert found.reshape(-1)[0] == found.reshape(-1)[found.size // 2]
    assert data.array(twice.slice(shape[0]), "x").tolist() == data.array(table, "x").tolist()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, None], "column x has 1 rows without a value"),
        ([[1, 2], [3]], "column x has arrays of different lengths, from 1 to 2"),
        ([[1, None]], "column x has 1 rows without a value"),
    ],
)
def test_columns_that_are_no_arrays_are_named(values: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        data.array(_table(x=values), "x")
    with pytest.raises(ValueError, match="no column y, only x"):
        data.array(_table(x=[1]), "y")


@pytest.mark.parametrize(("own", "most", "size"), [(10, 10, 3), (7, 8, 4), (3, 9, 2), (5, 5, 9)])
@pytest.mark.parametrize("shuffled", [False, True])
def test_all_ranks_take_the_same_steps(own: int, most: int, size: int, shuffled: bool) -> None:
    random = np.random.default_rng(0) if shuffled else None
    found = list(rows.batches({"n": np.arange(own)}, size, most, None, random))
    assert [len(batch["n"]) for batch in found] == [
        min(size, most - start) for start in range(0, most, size)
    ]
    seen = np.concatenate([batch["n"] for batch in found])
    assert set(seen) == set(range(own))  # each row at least once
    assert np.bincount(seen).max() - np.bincount(seen).min() <= 1


def test_the_number_of_steps_can_be_given() -> None:
    found = list(rows.batches({"n": np.arange(5)}, 2, 5, steps=4))
    assert [batch["n"].tolist() for batch in found] == [[0, 1], [2, 3], [4, 0], [1, 2]]


@pytest.mark.parametrize("validation", [None, 0.25, "held"])
def test_rows_are_divided_between_training_and_validation(
    tmp_path: Path, validation: float | str | None
) -> None:
    where = Store.create(str(tmp_path))
    paths = where.get_train_data_path(), where.get_val_data_path()
    batch = pyarrow.RecordBatch.from_pydict(
        {"n": list(range(100)), "held": [n % 4 == 0 for n in range(100)]}
    )
    said = list(data.write_partition(iter([batch]), where, paths, ["n"], validation, 0))
    assert {batch.column(0)[0].as_py() for batch in said} == ({0} if validation is None else {0, 1})
    numbers: list[set[int]] = [set(), set()]
    for purpose, path in enumerate(paths):
        if where.is_parquet_dataset(path):
            numbers[purpose] = set(where.get_parquet_dataset(path).to_table()["n"].to_pylist())
    assert numbers[0] | numbers[1] == set(range(100)) and not numbers[0] & numbers[1]
    if validation == "held":
        assert numbers[1] == set(range(0, 100, 4))
    if validation == 0.25:
        assert 10 <= len(numbers[1]) <= 40


def test_a_column_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    where = Store.create(str(tmp_path))
    path = _fill(where, (4,))
    training = rows.Training(
        where, path, None, "", ["n"], ["n"], "n", None, 1, 1, 1, None, None, False, 0, 0, False
    )
    assert {name: found.tolist() for name, found in training.read(path, 0, 2).items()} == {
        "n": [0, 1]
    }


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(ValueError, match="needs store="):
        store.check(None)
    with pytest.raises(TypeError, match="expected a Store"):
        store.check("/a/folder")
