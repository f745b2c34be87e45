"""A cursor and the loaders of the frameworks, which fetch ahead of the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from hvdlite.data.cursor import Cursor

LENGTH, BATCH = 60, 2


class World:
    """Where this process is, and the cursor that goes by it."""

    def __init__(self) -> None:
        self.place = (0, 2)
        rank, size = lambda: self.place[0], lambda: self.place[1]
        self.cursor = Cursor(LENGTH, BATCH, seed=4, rank=rank, size=size)

    def changes_to(self, rank: int, size: int) -> None:
        self.place = rank, size
        self.cursor.reset()


def _expected(changes: dict[int, tuple[int, int]]) -> list[list[int]]:
    """What two epochs deal if nothing is fetched ahead and nothing fails."""
    world, dealt = World(), []
    while world.cursor.epoch < 2:
        dealt.append(world.cursor.begin().tolist())
        world.cursor.whole()
        if len(dealt) in changes:
            world.changes_to(*changes[len(dealt)])
    return dealt


@pytest.fixture
def world() -> World:
    return World()


def _tracked(world: World, loader: Any, read: Callable[[Any], list[int]]) -> list[list[int]]:
    """Two epochs. Behind five whole steps, in the middle of the sixth, the world changes."""
    dealt: list[list[int]] = []
    failed = False
    while world.cursor.epoch < 2:
        for batch in world.cursor.track(loader, epochs=2):
            if len(dealt) == 5 and not failed:
                failed = True
                break  # as an error does
            dealt.append(read(batch))
            world.cursor.whole()  # as state.step() does
        if failed and world.place == (0, 2):
            world.changes_to(1, 3)
    return dealt


def _of_torch(cursor: Cursor, workers: int) -> Any:
    torch = pytest.importorskip("torch")
    data = torch.utils.data
    return data.DataLoader(
        data.TensorDataset(torch.arange(LENGTH)),
        batch_sampler=cursor.batches(),
        num_workers=workers,
        persistent_workers=workers > 0,
        # Other frameworks' threads may be in this process, which must not be forked.
        multiprocessing_context="spawn" if workers else None,
    )


def test_torchs_loader_is_dealt_anew_after_a_change(world: World) -> None:
    loader = _of_torch(world.cursor, workers=0)
    assert len(loader) == LENGTH // (2 * BATCH)
    assert _tracked(world, loader, lambda batch: batch[0].tolist()) == _expected({5: (1, 3)})


@pytest.mark.costly
def test_torchs_workers_prefetch_and_outlive_a_change(world: World) -> None:
    loader = _of_torch(world.cursor, workers=2)
    pids: set[int] = set()

    def read(batch: Any) -> list[int]:
        pids.update(worker.pid for worker in loader._iterator._workers)
        return batch[0].tolist()

    assert _tracked(world, loader, read) == _expected({5: (1, 3)})
    assert len(pids) == 2


@pytest.mark.costly
def test_tensorflows_dataset_is_dealt_anew_after_a_change(world: World) -> None:
    pytest.importorskip("tensorflow")
    dataset = world.cursor.indices_dataset().map(lambda indices: indices * 2).prefetch(4)
    found = _tracked(world, dataset, lambda batch: (batch.numpy() // 2).tolist())
    assert found == _expected({5: (1, 3)})


# Keras.


@pytest.fixture
def keras() -> Any:
    return pytest.importorskip("keras")


def test_keras_batches_are_the_cursors(world: World, keras: Any) -> None:
    x, y = np.arange(LENGTH), np.arange(LENGTH) * 10
    dataset = world.cursor.keras(x, y)
    assert len(dataset) == 15
    batches = [dataset[number] for number in range(15)]
    assert [batch[0].tolist() for batch in batches] == list(world.cursor.batches())
    assert all((10 * xs == ys).all() for xs, ys in batches)
    with pytest.raises(IndexError):
        dataset[15]
    assert world.cursor.keras(x)[0][0].tolist() == batches[0][0].tolist()
    assert world.cursor.sample == 0
    world.changes_to(1, 3)
    assert len(dataset) == 10
    assert dataset[0][0].tolist() == next(iter(world.cursor.batches()))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_fit_deals_each_epoch_once(world: World, keras: Any, workers: int) -> None:
    trained: list[list[int]] = []
    cursor = world.cursor

    class Moves(keras.callbacks.Callback):  # type: ignore[misc,name-defined]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            trained.append(cursor.begin().tolist())

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            cursor.whole()

    fetched: list[list[int]] = []

    def load(indices: Any) -> Any:
        fetched.append(indices.tolist())
        values = indices.astype("float32")[:, None]
        return values, values

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(cursor.keras(load, workers=workers), epochs=2, verbose=0, callbacks=[Moves()])
    assert (cursor.epoch, cursor.sample) == (2, 0)
    assert trained == _expected({})
    assert {tuple(batch) for batch in fetched} >= {tuple(batch) for batch in trained}


def _epochs(cursor: Cursor) -> Iterator[int]:
    while cursor.epoch < 2:
        yield cursor.epoch


def test_after_a_change_one_fit_is_one_epoch(world: World, keras: Any) -> None:
    trained: list[list[int]] = []
    cursor = world.cursor

    class Moves(keras.callbacks.Callback):  # type: ignore[misc,name-defined]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if len(trained) == 5 and world.place == (0, 2):
                raise RuntimeError("a rank is lost")
            trained.append(cursor.begin().tolist())

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            cursor.whole()

    values = np.arange(LENGTH, dtype="float32")[:, None]
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    for epoch in _epochs(cursor):
        try:
            model.fit(
                cursor.keras(values, values),
                initial_epoch=epoch,
                epochs=epoch + 1,
                verbose=0,
                callbacks=[Moves()],
            )
        except RuntimeError:
            world.changes_to(1, 3)
    assert trained == _expected({5: (1, 3)})
