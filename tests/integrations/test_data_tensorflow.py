"""hvd.data.shard() of tf.data's datasets and of Keras' PyDatasets."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from pretended import World, gathered

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="tensorflow is not installed")
keras = pytest.importorskip("keras", reason="keras is not installed")

import hvdlite as hvd  # noqa: E402

__all__ = ["gathered"]


def parts_of(dataset: Any, size: int, **options: Any) -> list[list[Any]]:
    shards = [
        hvd.data.shard(dataset, process_set=World(size, rank), **options) for rank in range(size)
    ]
    assert all(isinstance(shard, tf.data.Dataset) for shard in shards)
    assert all(shard.element_spec == dataset.element_spec for shard in shards)
    return [list(shard.as_numpy_iterator()) for shard in shards]


def unknown(length: int) -> Any:
    """A dataset that does not know its length."""
    dataset = tf.data.Dataset.range(length).filter(lambda _: True)
    assert dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY
    return dataset


@pytest.mark.parametrize("made", [tf.data.Dataset.range, unknown])
@pytest.mark.parametrize("length", [2, 6, 7])
def test_each_element_is_dealt_once_and_equally_many(made: Any, length: int) -> None:
    padded = parts_of(made(length), 3)
    assert {len(part) for part in padded} == {-(-length // 3)}
    assert set(sum(padded, [])) == set(range(length))
    if made is unknown or length >= 3:
        dropped = sum(parts_of(made(length), 3, rest="drop"), [])
        assert sorted(dropped) == list(range(length // 3 * 3))
    else:
        with pytest.raises(ValueError, match="2 samples are fewer than the 3"):
            parts_of(made(length), 3, rest="drop")


@pytest.mark.parametrize(
    "element",
    [
        lambda n: (n, n * 2),
        lambda n: {"x": n, "y": tf.strings.as_string(n)},
        lambda n: (n,),
        lambda n: ({"x": n}, tf.range(n)),
    ],
)
def test_elements_of_any_structure_and_shape(element: Any) -> None:
    parts = parts_of(unknown(7).map(element), 2)
    assert [len(part) for part in parts] == [4, 4]
    tf.nest.assert_same_structure(parts[1][-1], parts[0][0])


def test_an_endless_dataset_stays_endless() -> None:
    endless = hvd.data.shard(tf.data.Dataset.range(5).repeat(), process_set=World(2, 1))
    assert list(endless.take(5).as_numpy_iterator()) == [1, 3, 0, 2, 4]


def test_a_shuffle_without_a_seed_is_refused() -> None:
    shuffled = tf.data.Dataset.range(10).shuffle(10).batch(2)
    with pytest.raises(ValueError, match="pass seed= to shuffle"):
        parts_of(shuffled, 2)
    # Each rank has a dataset of its own: the iterators of one dataset have different orders.
    parts = [
        hvd.data.shard(
            tf.data.Dataset.range(10).shuffle(10, seed=3).batch(2), process_set=World(2, rank)
        )
        for rank in range(2)
    ]
    dealt_out = np.concatenate([batch for part in parts for batch in part.as_numpy_iterator()])
    assert set(dealt_out.tolist()) == set(range(10))


def test_what_has_been_shared_out_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    given = tf.data.Dataset.range(10).shard(2, 1).batch(2)
    assert hvd.data.shard(given, process_set=World(2, 1)) is given
    assert "Dataset.shard() has shared it out already" in caplog.text
    with pytest.raises(ValueError, match="cannot shuffle a tf.data.Dataset"):
        hvd.data.shard(given, shuffle=True, process_set=World(2))


# Keras.


class Numbers(keras.utils.PyDataset):  # type: ignore[misc,name-defined]
    """Ten batches of two."""

    ended = 0

    def __len__(self) -> int:
        return 10

    def __getitem__(self, number: int) -> Any:
        values = np.array([[2 * number], [2 * number + 1]], "float32")
        return values, values

    def on_epoch_end(self) -> None:
        self.ended += 1


def dealt(dataset: Any) -> list[int]:
    return [int(dataset[number][0][0, 0]) // 2 for number in range(len(dataset))]


def test_the_batches_of_a_pydataset_are_dealt_in_each_epoch() -> None:
    datasets = [hvd.data.shard(Numbers(workers=3), process_set=World(3, rank)) for rank in range(3)]
    assert all(isinstance(d, keras.utils.PyDataset) and d.workers == 3 for d in datasets)
    assert [len(d) for d in datasets] == [4] * 3
    for dataset in datasets:
        dataset.on_epoch_end()  # as Keras calls it before the first epoch
    epochs = []
    for _ in range(2):
        for dataset in datasets:
            dataset.on_epoch_begin()
        epochs.append([dealt(dataset) for dataset in datasets])
        for dataset in datasets:
            dataset.on_epoch_end()
    assert all(set(sum(epoch, [])) == set(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert hvd.data.shard(datasets[0], process_set=World(3)) is datasets[0]
    state = datasets[0].state_dict()
    assert (state["epoch"], state["sample"]) == (2, 0)


@pytest.mark.full
def test_a_fit_trains_each_batch_once_per_epoch_and_can_count_within() -> None:
    numbers = Numbers()
    dataset = hvd.data.shard(numbers, process_set=World(1))
    places = []

    class Counts(keras.callbacks.Callback):  # type: ignore[misc,name-defined]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            dataset.shard.record()
            places.append(dataset.state_dict()["sample"])

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(dataset, epochs=2, verbose=0, callbacks=[Counts()])
    assert places == [*range(1, 10), 0] * 2
    assert dataset.state_dict()["epoch"] == 2 and numbers.ended >= 2
