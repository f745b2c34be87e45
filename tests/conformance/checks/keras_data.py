"""Keras: fit() with every kind of data, and collectives on values."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from checks import COSTLY, check, needs
from checks.barrier import waits_for_the_last
from checks.here import Here, raises
from checks.keras_here import (
    EACH,
    MORE_RANKS,
    STEPS,
    alone,
    backend,
    contents,
    data,
    equal_everywhere,
    fit,
    hvd,
    keras,
    legacy,
    model,
    own,
    part,
    same,
)  # fmt: skip


@check(kind=("PyDataset", "tf.data", "DataLoader", "generator"), seconds=60, tags=[COSTLY])
def fit_takes_every_kind_of_data(here: Here, kind: str) -> None:
    x, y = data(here)
    mine = own(here)
    more: dict[str, Any] = {}
    source: Any
    if kind == "PyDataset":
        base = keras.utils.Sequence if legacy() else keras.utils.PyDataset

        class Batches(base):  # type: ignore[misc, valid-type]
            def __len__(self) -> int:
                return STEPS

            def __getitem__(self, i: int) -> Any:
                return tuple(array[i * EACH : (i + 1) * EACH] for array in mine)

        source = Batches()
    elif kind == "tf.data":
        needs(find_spec("tensorflow"), "TensorFlow")
        import tensorflow as tf

        source = tf.data.Dataset.from_tensor_slices(mine).batch(EACH)
    elif kind == "DataLoader":
        needs(find_spec("torch") and not legacy(), "torch, and Keras 3")
        import torch

        pairs = torch.utils.data.TensorDataset(*map(torch.from_numpy, mine))
        source = torch.utils.data.DataLoader(pairs, batch_size=EACH)
    else:
        version = tuple(map(int, keras.__version__.split(".")[:2]))
        trains_on_all = version >= (3, 7) or legacy() or backend() != "torch"
        needs(trains_on_all, "a Keras that leaves out no batch of a generator on torch (3.7)")
        more["steps_per_epoch"] = STEPS
        source = (tuple(a[i % STEPS * EACH :][:EACH] for a in mine) for i in range(10**6))
    net = model()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    fit(
        net,
        optimizer,
        source,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
        **more,
    )
    same(here, net, alone(here, keras.optimizers.SGD(0.1)))


@check(seconds=60)
def class_weights_sample_weights_and_validation(here: Here) -> None:
    x, _ = data(here)
    labels = (x[:, 0] > 0).astype("int32")
    weights = (1 + np.arange(len(x)) % 3).astype("float32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    for more in ({"class_weight": {0: 0.5, 1: 2.0}}, {"sample_weight": weights}):
        mine: dict[str, Any] = {
            k: part(here, v) if isinstance(v, np.ndarray) else v for k, v in more.items()
        }
        checked = (part(here, x), part(here, labels))
        if "class_weight" in more:
            mine |= {"metrics": ["accuracy"], "validation_data": checked}
        got, want = model(), model()
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01), op=hvd.Sum)
        fit(got, optimizer, *checked, loss=loss, **mine)
        fit(
            want,
            keras.optimizers.SGD(0.01),
            x,
            labels,
            batch_size=EACH * here.size,
            loss=loss,
            **more,
        )
        same(here, got, contents(want.weights), 1e-5)


@check(seconds=30)
def a_loop_of_ones_own(here: Here) -> None:
    got = model()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    x, y = own(here)
    mse = keras.losses.MeanSquaredError()
    variables = got.trainable_variables
    if backend() == "tensorflow":
        import tensorflow as tf

        @tf.function
        def step(x: Any, y: Any) -> None:
            with tf.GradientTape() as tape:
                loss = mse(y, got(x))
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    elif backend() == "torch":
        import torch

        def step(x: Any, y: Any) -> None:
            got.zero_grad()
            mse(torch.tensor(y), got(x)).backward()
            with torch.no_grad():
                optimizer.apply([v.value.grad for v in variables], variables)
    else:
        import jax

        optimizer.build(variables)
        fixed = [v.value for v in got.non_trainable_variables]

        def loss_of(weights: Any, x: Any, y: Any) -> Any:
            return mse(y, got.stateless_call(weights, fixed, x)[0])

        @jax.jit
        def update(weights: Any, slots: Any, x: Any, y: Any) -> Any:
            return optimizer.stateless_apply(slots, jax.grad(loss_of)(weights, x, y), weights)

        def step(x: Any, y: Any) -> None:
            weights, slots = update(
                [v.value for v in variables], [v.value for v in optimizer.variables], x, y
            )
            for variable, value in zip(
                [*variables, *optimizer.variables], [*weights, *slots], strict=True
            ):
                variable.assign(value)

    for i in range(2 * STEPS):
        first = i % STEPS * EACH
        step(x[first : first + EACH], y[first : first + EACH])
    got.optimizer = optimizer
    same(here, got, alone(here, keras.optimizers.SGD(0.1)))


@check(seconds=20, tags=MORE_RANKS)
def collectives_on_values(here: Here) -> None:
    n, r = here.size, here.rank
    total = n * (n - 1) / 2
    assert float(hvd.allreduce(float(r))) == np.float32(total / n)
    assert float(hvd.allreduce(r * 1.0, average=False, name="sum")) == total
    assert float(hvd.allreduce(np.float32(r), op=hvd.Max)) == n - 1
    assert (
        float(hvd.allreduce(r * 1.0, op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0))
        == 6 * total
    )
    small = hvd.allreduce(np.full(3, r, "float32"), op=hvd.Sum, compression=hvd.Compression.fp16)
    np.testing.assert_array_equal(contents([small])[0], np.full(3, total, "float32"))
    gathered = hvd.allgather(np.full((r + 1, 2), r, "int32"), name="rows")
    np.testing.assert_array_equal(
        contents([gathered])[0][:, 0], np.repeat(np.arange(n), np.arange(n) + 1)
    )
    assert float(hvd.broadcast(float(r), n - 1)) == n - 1
    mine = hvd.reducescatter(np.arange(2.0 * n, dtype="float32"), op=hvd.Sum)
    np.testing.assert_array_equal(
        contents([mine])[0], n * np.arange(2.0 * n, dtype="float32")[2 * r : 2 * r + 2]
    )
    waits_for_the_last(here, hvd.barrier)
    weights = model(seed=r).weights
    hvd.broadcast_variables(weights, n - 1)
    for a, b in zip(contents(weights), contents(model(seed=n - 1).weights), strict=True):
        np.testing.assert_array_equal(a, b)
    equal_everywhere(here, contents(weights))
    if not legacy():
        with raises(RuntimeError, "runs eagerly"):
            hvd.broadcast_global_variables(0)
