"""Local steps and large batches in Keras 3, on each of its backends."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks import check
from checks.here import Here, raises
from checks.keras_here import (
    EACH,
    backend,
    contents,
    equal_everywhere,
    fit,
    hvd,
    jit_for_conditions,
    keras,
    model,
    own,
)


def plain() -> Any:
    return keras.optimizers.SGD(0.1)


def with_momentum() -> Any:
    return keras.optimizers.SGD(0.05, momentum=0.9)


def trained(here: Here, optimizer: Any, net: Any = None, **more: Any) -> Any:
    """The network after training on this rank's rows."""
    net = net or model()
    fit(net, optimizer, *own(here), **{"jit_compile": jit_for_conditions()} | more)
    return net


def close(net: Any, want: list[np.ndarray], tolerance: float = 2e-6) -> None:
    for got, expected in zip(contents(net.weights), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


def count(net: Any) -> Any:
    from hvdlite.adapter.local.schedule import Count

    return Count(*map(float, contents([net.optimizer._hvd_count])[0]))


@check(min_ranks=2, seconds=60)
def ranks_differ_between_averages_and_the_callback_ends_that(here: Here) -> None:
    got = trained(here, hvd.LocalSGD(plain(), every=50))
    everyones = hvd.allgather_object(contents(got.weights)[0])
    assert not np.array_equal(everyones[0], everyones[1])
    seen: list[Any] = []

    class Look(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_test_end(self, logs: Any = None) -> None:
            seen.append(contents(self.model.weights)[0])

    callbacks = [hvd.callbacks.LocalStepsCallback(), Look()]
    x, y = own(here, 2)
    got = trained(here, hvd.LocalSGD(plain(), every=50), callbacks=callbacks,
                  validation_data=(x, y))  # fmt: skip
    assert len(seen) == 2
    equal_everywhere(here, [*seen, *contents(got.weights)])


@check(seconds=60)
def a_loss_that_falls_shrinks_the_interval_on_all_ranks(here: Here) -> None:
    optimizer = hvd.LocalSGD(plain(), every=4, adaptive=True)
    got = trained(here, optimizer, epochs=12, callbacks=[hvd.callbacks.LocalStepsCallback()])
    interval = count(got).interval
    assert 1 <= interval < 4, interval
    assert len(set(hvd.allgather_object(interval))) == 1


@check(seconds=60)
def state_is_in_the_optimizers_variables(here: Here) -> None:
    optimizer = hvd.DiLoCo(with_momentum(), every=3)
    got = trained(here, optimizer)
    names = [v.name for v in optimizer.variables]
    assert "local_steps" in names and sum("velocity" in name for name in names) == 4
    kept = contents(got.weights), contents(optimizer.variables)
    got.fit(*own(here), batch_size=EACH, shuffle=False, verbose=0)
    again, other = model(seed=9), hvd.DiLoCo(with_momentum(), every=3)
    other.build(again.trainable_variables)
    again.set_weights(kept[0])
    for variable, value in zip(other.variables, kept[1], strict=True):
        variable.assign(value)
    trained(here, other, net=again, epochs=1)
    close(again, contents(got.weights), 1e-6)


@check(seconds=30)
def what_cannot_be_is_refused(here: Here) -> None:
    with raises(ValueError, "already"):
        hvd.DistributedOptimizer(hvd.LocalSGD(plain(), every=2))
    with raises(ValueError, "already"):
        hvd.LocalSGD(hvd.DistributedOptimizer(plain()), every=2)
    with raises(TypeError, "an optimizer of Keras 3"):
        hvd.LocalSGD(object(), every=2)
    assert backend() in ("tensorflow", "torch", "jax")


# ---- large batches


@check(seconds=30)
def lars_with_norms_of_one_is_sgd_with_a_scaled_rate(here: Here) -> None:
    weights = [keras.Variable(np.array([[0.6, 0.8]], "float32")) for _ in range(2)]
    gradient = keras.ops.convert_to_tensor(np.array([[0.0, 1.0]], "float32"))
    hvd.LARS(0.5, momentum=0.9, trust=0.02).apply([gradient], weights[:1])
    keras.optimizers.SGD(0.5 * 0.02, momentum=0.9).apply([gradient], weights[1:])
    mine, theirs = contents(weights)
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@check(seconds=30)
def lars_leaves_biases_out_and_can_be_saved(here: Here) -> None:
    lars = hvd.LARS(0.1, weight_decay=0.5, exclude=["dense_1"])
    again = keras.optimizers.deserialize(keras.optimizers.serialize(lars))
    assert again.get_config() == lars.get_config() and again.decay == 0.5
    bias = keras.Variable(np.ones(3, "float32"))
    lars.apply([keras.ops.ones((3,))], [bias])
    np.testing.assert_allclose(contents([bias])[0], 0.9 * np.ones(3), rtol=1e-6)
