"""hvd.data.shard() of torch's loaders and data sets."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from launched import Job
from pretended import World, gathered

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import (  # noqa: E402
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    Subset,
    WeightedRandomSampler,
)

import hvdlite.torch as hvd  # noqa: E402

__all__ = ["gathered"]

LENGTH = 50


class Numbers(Dataset):
    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, number: int) -> int:
        return number


class Stream(IterableDataset):
    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Any:
        return iter(range(LENGTH))

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def loader_of(world: World, *, seed: int = 0, rest: str | None = None, **options: Any) -> Any:
    loader = DataLoader(options.pop("data", Numbers()), 4, **options)
    return hvd.data.shard(loader, seed=seed, rest=rest, process_set=world)


def batches_of(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


def on_all(size: int, **options: Any) -> list[list[list[int]]]:
    return [batches_of(loader_of(World(size, rank), **options)) for rank in range(size)]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.costly)])
def test_a_loader_stays_a_loader_and_deals_each_sample_once(workers: int) -> None:
    loader = loader_of(World(3), shuffle=True, num_workers=workers)
    assert isinstance(loader, DataLoader) and type(loader).__name__ == "ShardDataLoader"
    assert len(loader) == 5 and loader.batch_size == 4
    parts = on_all(3, shuffle=True, num_workers=workers)
    assert [[len(batch) for batch in part] for part in parts] == [[4] * 5] * 3
    counted = Counter(sample for part in parts for batch in part for sample in batch)
    assert set(counted) == set(range(LENGTH)) and counted.total() == 60
    assert sum(parts[0], []) != sorted(sum(parts[0], [])), "shuffled as the loader was"


def test_it_is_as_the_loader_was() -> None:
    assert on_all(2)[0][:2] == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert len(loader_of(World(3), drop_last=True)) == 4
    assert len(loader_of(World(3), drop_last=True, rest="pad")) == 5


def test_each_epoch_has_its_order() -> None:
    loader = loader_of(World(2), shuffle=True)
    first, second = batches_of(loader), batches_of(loader)
    assert first != second
    loader.set_epoch(0)
    assert batches_of(loader) == first
    loader.sampler.set_epoch(1)  # as trainers do
    assert batches_of(loader) == second


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.costly)])
def test_an_epoch_goes_on_with_another_number_of_ranks(workers: int) -> None:
    had: list[int] = []
    states = []
    for rank in range(3):
        loader = loader_of(World(3, rank), shuffle=True, seed=5, num_workers=workers)
        for number, batch in enumerate(loader):
            had += batch.tolist()
            if number == 1:
                states.append(loader.state_dict())
                break
    assert len({json.dumps(state) for state in states}) == 1 and states[0]["sample"] == 24
    for rank in range(2):
        loader = loader_of(World(2, rank), shuffle=True, seed=5, num_workers=workers)
        loader.load_state_dict(states[0])
        loader.set_epoch(0)
        had += sum(batches_of(loader), [])
        assert loader.state_dict()["epoch"] == 1
    assert set(had) == set(range(LENGTH)) and len(had) == 24 + 32


def test_what_has_been_shared_out_is_left_alone_or_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sampler = DistributedSampler(Numbers(), 2, 0)
    given = DataLoader(Numbers(), 4, sampler=sampler)
    assert hvd.data.shard(given, process_set=World(2)) is given
    assert "stays as it is: its DistributedSampler has shared it out" in caplog.text
    with pytest.raises(ValueError, match="DistributedSampler shares it out to 2 ranks, but .* 3"):
        hvd.data.shard(given, process_set=World(3))
    loader = loader_of(World(2))
    assert hvd.data.shard(loader, process_set=World(2)) is loader
    # So that trainers leave it alone, too.
    assert isinstance(loader.sampler, DistributedSampler)


def test_another_loader_of_its_batches_is_refused() -> None:
    """As Accelerate makes one."""
    loader = loader_of(World(2))
    other = DataLoader(loader.dataset, batch_sampler=loader.batch_sampler)
    with pytest.raises(ValueError, match=r"accelerator\.prepare"):
        next(iter(other))


def test_a_sampler_of_its_own_is_replaced_only_if_that_is_said() -> None:
    sampler = WeightedRandomSampler([1.0] * LENGTH, LENGTH)
    given = DataLoader(Numbers(), 4, sampler=sampler)
    with pytest.raises(ValueError, match="WeightedRandomSampler, whose order"):
        hvd.data.shard(given, process_set=World(2))
    assert len(hvd.data.shard(given, shuffle=True, process_set=World(2))) == 7
    batched = DataLoader(Numbers(), batch_sampler=[[0, 1]])
    with pytest.raises(ValueError, match="batch_sampler of its own"):
        hvd.data.shard(batched, process_set=World(2))


def test_a_dataset_becomes_this_ranks_part() -> None:
    parts = [hvd.data.shard(Numbers(), process_set=World(3, rank)) for rank in range(3)]
    assert all(isinstance(part, Subset) and len(part) == 17 for part in parts)
    assert {sample for part in parts for sample in part} == set(range(LENGTH))
    with pytest.raises(ValueError, match="arrays only"):
        hvd.data.shard(Numbers(), 4, process_set=World(3))


def test_tensors_become_batches() -> None:
    data = {"x": torch.arange(LENGTH), "y": torch.arange(LENGTH) * 2}
    batches = list(hvd.data.shard(data, 5, process_set=World(2)))
    assert len(batches) == 5 and all((b["y"] == 2 * b["x"]).all() for b in batches)


# Data sets without numbers.


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.costly)])
def test_a_stream_is_dealt_and_goes_on_with_another_number_of_ranks(workers: int) -> None:
    parts = on_all(3, data=Stream(), num_workers=workers)
    assert {sum(map(len, part)) for part in parts} == {17}
    assert set(sum(sum(parts, []), [])) == set(range(LENGTH))
    had: list[int] = []
    for rank in range(3):
        loader = loader_of(World(3, rank), data=Stream(), num_workers=workers)
        for _, batch in zip(range(2), loader, strict=False):
            had += batch.tolist()
            state = loader.state_dict()
    assert state == {"done": 24}
    for rank in range(2):
        loader = loader_of(World(2, rank), data=Stream(), num_workers=workers)
        loader.load_state_dict(state)
        had += sum(batches_of(loader), [])
        assert loader.state_dict() == {"done": 0}
        assert len(batches_of(loader)) == 7, "the next epoch is whole"
    assert sorted(had) == list(range(LENGTH))


def test_a_streams_place_is_unknown_with_several_workers() -> None:
    loader = loader_of(World(2), data=Stream(), num_workers=2)
    with pytest.raises(ValueError, match="each worker has a stream of its own"):
        loader.state_dict()
    loader.set_epoch(3)
    assert loader.dataset.examples.epoch == 3
    with pytest.raises(ValueError, match="cannot shuffle an IterableDataset"):
        hvd.data.shard(Stream(), shuffle=True, process_set=World(2))


# torchdata.


def test_a_stateful_loader_saves_what_any_number_of_ranks_can_load() -> None:
    stateful = pytest.importorskip(
        "torchdata.stateful_dataloader", reason="torchdata is not installed"
    )

    def loader_for(rank: int, size: int) -> Any:
        given = stateful.StatefulDataLoader(Numbers(), 4, shuffle=True)
        return hvd.data.shard(given, process_set=World(size, rank))

    had: list[int] = []
    for rank in range(3):
        loader = loader_for(rank, 3)
        assert isinstance(loader, stateful.StatefulDataLoader) and len(loader) == 5
        for _, batch in zip(range(2), loader, strict=False):
            had += batch.tolist()
        state = loader.state_dict()
    assert state["sample"] == 24
    for rank in range(2):
        loader = loader_for(rank, 2)
        loader.load_state_dict(state)
        had += sum(batches_of(loader), [])
        assert len(batches_of(loader)) == 7
    assert set(had) == set(range(LENGTH)) and len(had) == 24 + 32


# Real ranks.

PROGRAM = """
import json, sys
import torch
from torch.utils.data import DataLoader, TensorDataset
import hvdlite.torch as hvd

hvd.init()
loader = hvd.data.shard(DataLoader(TensorDataset(torch.arange(50)), 4, shuffle=True), seed=2)
if sys.argv[1] == "resume":
    loader.load_state_dict(json.load(open("state.json")))
had = []
for number, (batch,) in enumerate(loader):
    had.append(batch)
    state = loader.state_dict()
    if sys.argv[1] == "break" and number == 1:
        break
all_of_them = hvd.allgather(torch.cat(had))
if hvd.rank() == 0:
    json.dump(state, open("state.json", "w"))
    json.dump(all_of_them.tolist(), open(sys.argv[1] + ".json", "w"))
    print("dealt", len(all_of_them), flush=True)
mine = 50 - hvd.rank()
try:
    list(hvd.data.shard(list(range(mine)), 5))
except ValueError as error:
    print("refused", error, flush=True)
"""


@pytest.mark.costly
def test_a_job_goes_on_with_another_number_of_ranks_and_finds_other_data(job: Job) -> None:
    program = job.script(PROGRAM)
    done = job.end_well("-np", "3", "python", program, "break")
    assert "dealt 24" in done.stdout.decode()
    done = job.end_well("-np", "2", "python", program, "resume")
    said = done.stdout.decode()
    assert "dealt 32" in said
    assert (
        said.count("refused hvd.data.shard: the ranks share out different data: length is 50") == 2
    )
    had = sum((_read(job.directory / f"{name}.json") for name in ("break", "resume")), [])
    assert Counter(had).total() == 56 and set(had) == set(range(50))


def _read(path: Path) -> list[int]:
    found: list[int] = json.loads(path.read_text())
    return found
