"""Local steps and large batches in Keras 3, on each of its backends."""

from __future__ import annotations

from typing import Any

import numpy as np

import hvdlite
from checks import check
from checks.here import Here, raises
from checks.keras_here import (
    EACH,
    STEPS,
    alone,
    backend,
    contents,
    data,
    equal_everywhere,
    fit,
    hvd,
    jit_for_conditions,
    jit_modes_for_conditions,
    keras,
    model,
    own,
    same,
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


def simulated(here: Here, make: Any, every: int, start: int = 0, epochs: int = 2) -> Any:
    """One process that trains the ranks' networks one after the other, and averages them."""
    x, y = data(here)
    nets = [model() for _ in here.ranks]
    for net in nets:
        net.compile(optimizer=make(), loss="mse", jit_compile=False)
    whole = model()
    whole.compile(optimizer=make(), loss="mse", jit_compile=False)
    for number in range(epochs * STEPS):
        rows = EACH * here.size
        first = number % STEPS * rows
        if number < start:  # as one network on the global batch
            whole.train_on_batch(x[first : first + rows], y[first : first + rows])
            for net in nets:
                net.set_weights(whole.get_weights())
        else:
            for rank, net in enumerate(nets):
                part = slice(first + rank * EACH, first + (rank + 1) * EACH)
                net.train_on_batch(x[part], y[part])
            if (number + 1 - start) % every == 0:
                everyones = zip(*(net.get_weights() for net in nets), strict=True)
                means = [np.mean(each, axis=0) for each in everyones]
                for net in nets:
                    net.set_weights(means)
    return nets[here.rank].get_weights()


def close(net: Any, want: list[np.ndarray], tolerance: float = 2e-6) -> None:
    for got, expected in zip(contents(net.weights), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


def count(net: Any) -> Any:
    from hvdlite.adapter.local.schedule import Count

    return Count(*map(float, contents([net.optimizer._hvd_count])[0]))


@check(seconds=60)
def an_interval_of_one_step_is_synchronous_training_bit_by_bit(here: Here) -> None:
    for jit in jit_modes_for_conditions():
        got = trained(here, hvd.LocalSGD(plain(), every=1), jit_compile=jit)
        want = trained(here, hvd.DistributedOptimizer(plain()), jit_compile=jit)
        for mine, theirs in zip(contents(got.weights), contents(want.weights), strict=True):
            np.testing.assert_array_equal(mine, theirs)


@check(seconds=90)
def weights_are_averaged_after_each_interval(here: Here) -> None:
    for jit in jit_modes_for_conditions():
        got = trained(here, hvd.LocalSGD(with_momentum(), every=2), jit_compile=jit)
        close(got, simulated(here, with_momentum, 2))
        equal_everywhere(here, contents(got.weights))
        assert (count(got).steps, count(got).since) == (2 * STEPS, 0.0)


@check(seconds=60)
def the_first_steps_are_synchronous(here: Here) -> None:
    got = trained(here, hvd.LocalSGD(plain(), every=3, start=2))
    close(got, simulated(here, plain, 3, start=2))
    equal_everywhere(here, contents(got.weights))


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


@check(min_ranks=2, seconds=60)
def momentum_is_averaged_if_it_is_asked_for(here: Here) -> None:
    for momentum in ("local", "average"):
        got = trained(here, hvd.LocalSGD(with_momentum(), every=4, momentum=momentum))
        everyones = hvd.allgather_object(contents(got.optimizer.momentums)[0])
        assert np.array_equal(everyones[0], everyones[1]) == (momentum == "average")
    with raises(ValueError, "momentum='all'"):
        hvd.LocalSGD(plain(), every=3, momentum="all")


@check(seconds=60)
def an_outer_optimizer_of_rate_one_without_momentum_is_local_sgd(here: Here) -> None:
    want = trained(here, hvd.LocalSGD(with_momentum(), every=4))
    for fragments in (1, 2):
        outer = hvd.OuterSGD(1.0, momentum=0.0)
        optimizer = hvd.DiLoCo(with_momentum(), outer, every=4, fragments=fragments)
        got = trained(here, optimizer)
        assert count(got).since == 0.0
        if fragments == 1:
            close(got, contents(want.weights))
        else:
            optimizer.sync()
        equal_everywhere(here, contents(got.weights))


@check(seconds=60)
def sync_behind_an_average_changes_nothing(here: Here) -> None:
    """Where ranks are equal already, momentum does not carry the weights on."""
    got = trained(here, hvd.DiLoCo(plain(), every=STEPS))
    kept = [*got.weights, *(v for pair in got.optimizer._hvd_outer for v in pair)]
    before = contents(kept)
    got.optimizer.sync()
    after = contents(kept)
    for mine, start in zip(after, before, strict=True):
        np.testing.assert_array_equal(mine, start)


@check(seconds=60)
def the_outer_optimizer_is_keras(here: Here) -> None:
    """By hand: Keras' SGD, whose gradient is how far the ranks have moved on average."""
    got = trained(here, hvd.DiLoCo(plain(), every=1))
    anchor, (x, y) = model(), data(here)
    outer = keras.optimizers.SGD(0.7, momentum=0.9, nesterov=True)
    outer.build(anchor.trainable_variables)
    rows = EACH * here.size
    for number in range(2 * STEPS):
        inner = model()
        inner.set_weights(anchor.get_weights())
        inner.compile(optimizer=plain(), loss="mse", jit_compile=False)
        first = number % STEPS * rows
        inner.train_on_batch(x[first : first + rows], y[first : first + rows])
        moved = [a - b for a, b in zip(anchor.get_weights(), inner.get_weights(), strict=True)]
        outer.apply([keras.ops.convert_to_tensor(each) for each in moved])
    close(got, anchor.get_weights(), 1e-5)
    equal_everywhere(here, contents(got.weights))


@check(seconds=60)
def a_loss_that_falls_shrinks_the_interval_on_all_ranks(here: Here) -> None:
    optimizer = hvd.LocalSGD(plain(), every=4, adaptive=True)
    got = trained(here, optimizer, epochs=12, callbacks=[hvd.callbacks.LocalStepsCallback()])
    interval = count(got).interval
    assert 1 <= interval < 4, interval
    assert len(set(hvd.allgather_object(interval))) == 1


@check(seconds=60)
def an_interval_by_time_ends_by_itself(here: Here) -> None:
    got = trained(here, hvd.LocalSGD(plain(), every="1ms"), epochs=4)
    for _ in range(200):
        if count(got).since == 0.0:
            break
        got.fit(*own(here), batch_size=EACH, verbose=0)
    else:
        raise AssertionError("200 epochs took less than a millisecond")
    hvdlite.join()  # ranks may have made different numbers of steps
    got.optimizer.sync()
    equal_everywhere(here, contents(got.weights))


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


@check(optimizer=("LARS", "Lamb"), seconds=60)
def norms_are_those_of_the_reduced_gradient(here: Here, optimizer: str) -> None:
    """Keras' own LAMB, and hvdlite's LARS."""

    def make() -> Any:
        if optimizer == "Lamb":
            return keras.optimizers.Lamb(0.01)
        return hvd.LARS(0.1, momentum=0.9, weight_decay=0.01, trust=0.05, nesterov=True)

    for jit in jit_modes_for_conditions():
        got = trained(here, hvd.DistributedOptimizer(make()), jit_compile=jit)
        same(here, got, alone(here, make()), 2e-5)


@check(seconds=30)
def lars_leaves_biases_out_and_can_be_saved(here: Here) -> None:
    lars = hvd.LARS(0.1, weight_decay=0.5, exclude=["dense_1"])
    again = keras.optimizers.deserialize(keras.optimizers.serialize(lars))
    assert again.get_config() == lars.get_config() and again.decay == 0.5
    bias = keras.Variable(np.ones(3, "float32"))
    lars.apply([keras.ops.ones((3,))], [bias])
    np.testing.assert_allclose(contents([bias])[0], 0.9 * np.ones(3), rtol=1e-6)
