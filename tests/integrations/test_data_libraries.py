"""hvd.data with the data sets of Hugging Face, grain and webdataset, and DALI's arguments."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from launched import Job
from pretended import World, gathered

import hvdlite as hvd

__all__ = ["gathered"]


@pytest.fixture
def datasets() -> Any:
    return pytest.importorskip("datasets", reason="datasets is not installed")


@pytest.fixture
def grain() -> Any:
    return pytest.importorskip("grain", reason="grain is not installed")


@pytest.fixture
def webdataset() -> Any:
    return pytest.importorskip("webdataset", reason="webdataset is not installed")


def on_all(data: Any, size: int, **options: Any) -> list[Any]:
    return [hvd.data.shard(data, process_set=World(size, rank), **options) for rank in range(size)]


# Hugging Face.


def test_a_dataset_of_hugging_face_becomes_this_ranks_part(datasets: Any) -> None:
    parts = on_all(datasets.Dataset.from_dict({"n": list(range(10))}), 3)
    assert all(isinstance(part, datasets.Dataset) and len(part) == 4 for part in parts)
    assert {row["n"] for part in parts for row in part} == set(range(10))


@pytest.mark.parametrize(("rest", "each"), [("pad", 4), ("drop", 3)])
def test_a_stream_of_hugging_face_is_dealt_and_stays_lazy(
    datasets: Any, rest: str, each: int
) -> None:
    whole = datasets.Dataset.from_dict({"n": list(range(10))}).to_iterable_dataset(num_shards=1)
    parts = on_all(whole, 3, rest=rest)
    assert all(isinstance(part, datasets.IterableDataset) for part in parts)
    found = [[row["n"] for row in part] for part in parts]
    assert [len(part) for part in found] == [each] * 3
    assert set(sum(found, [])) == set(range(10 if rest == "pad" else 9))


def test_what_hugging_face_has_shared_out_stays_as_it_is(
    datasets: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from datasets.distributed import split_dataset_by_node

    whole = datasets.Dataset.from_dict({"n": list(range(10))}).to_iterable_dataset(num_shards=2)
    split = split_dataset_by_node(whole, 0, 2)
    assert hvd.data.shard(split, process_set=World(2)) is split
    assert "split_dataset_by_node() has shared it out already" in caplog.text
    with pytest.raises(ValueError, match="to 2 ranks, but there are 3"):
        hvd.data.shard(split, process_set=World(3))


# Grain.


def test_a_map_dataset_of_grain_becomes_this_ranks_part(grain: Any) -> None:
    parts = on_all(grain.MapDataset.range(10), 3)
    assert all(isinstance(part, grain.MapDataset) and len(part) == 4 for part in parts)
    assert {element for part in parts for element in part} == set(range(10))
    batched = parts[0].map(lambda n: n + 1).batch(2)
    assert len(batched) == 2
    with pytest.raises(ValueError, match="before to_iter_dataset"):
        hvd.data.shard(parts[0].to_iter_dataset(), process_set=World(3))


def test_grains_options_are_the_place_of_the_rank(grain: Any) -> None:
    options = hvd.data.grain_options(True, process_set=World(3, 2))
    assert (options.shard_index, options.shard_count, options.drop_remainder) == (2, 3, True)
    assert isinstance(options, grain.sharding.ShardOptions)


# Webdataset.


def files_of(folder: Path, count: int) -> list[str]:
    """Tar files, of which each has two samples more than the one before."""
    names = []
    for number in range(count):
        names.append(str(folder / f"{number}.tar"))
        with tarfile.open(names[-1], "w") as archive:
            for sample in range(2 * number + 2):
                info = tarfile.TarInfo(f"{number}-{sample}.txt")
                info.size = 1
                archive.addfile(info, BytesIO(b"x"))
    return names


def test_files_of_webdataset_are_dealt_whatever_the_environment_says(
    webdataset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    files = files_of(tmp_path, 5)

    def keys(rank: int) -> list[str]:
        splitter = hvd.data.nodesplitter(process_set=World(2, rank))
        data = webdataset.WebDataset(files, nodesplitter=splitter, shardshuffle=False)
        with pytest.raises(ValueError, match=r"hvd\.data\.nodesplitter"):
            hvd.data.shard(data, process_set=World(2, rank))
        return [sample["__key__"] for sample in data]

    first, second = keys(0), keys(1)
    assert {key[0] for key in first} == {"0", "2", "4"}
    assert len(set(first) | set(second)) == len(first) + len(second) == 30


def test_fewer_files_than_ranks_are_named() -> None:
    splitter = hvd.data.nodesplitter(process_set=World(3, 1))
    with pytest.raises(ValueError, match="2 files are fewer than the 3 ranks"):
        list(splitter(["a", "b"]))


def test_dalis_arguments() -> None:
    assert hvd.data.dali(process_set=World(3, 2)) == {
        "shard_id": 2, "num_shards": 3, "stick_to_shard": True, "pad_last_batch": True,
    }  # fmt: skip


# Real ranks.

IN_STEP = """
import sys
import hvdlite as hvd

hvd.init()
own = [(hvd.rank(), number) for number in range(3 + hvd.rank())]
for rest in ("drop", "pad"):
    had = list(hvd.data.in_step(own, rest=rest))
    print(rest, hvd.rank(), had == [own[number % len(own)] for number in range(len(had))],
          len(had), flush=True)
for batch in hvd.data.in_step(own):
    inner = list(hvd.data.in_step(own))
    if batch[1] == 1:
        break
print("after", hvd.rank(), len(inner), flush=True)
try:
    list(hvd.data.in_step(own[: hvd.rank()]))
except ValueError as error:
    print(hvd.rank(), error, flush=True)
"""


def test_ranks_with_different_loaders_do_equally_many_steps(job: Job) -> None:
    done = job.end_well("-np", "3", "python", job.script(IN_STEP))
    said = done.stdout.decode()
    for rank in range(3):
        assert f"drop {rank} True 3" in said
        assert f"pad {rank} True 5" in said
        assert f"after {rank} 3" in said
        assert f"{rank} ranks [0] of 3 have no batch at all" in said
