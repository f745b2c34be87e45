"""Keras 3: each optimizer of ours in each kind of trouble. It is right, or refused with a
sentence."""

from __future__ import annotations

import os
import shutil
from typing import Any

import numpy as np

from checks import check, needs
from checks.here import Here, raises
from checks.keras_here import (
    EACH,
    STEPS,
    all_skip_an_overflow,
    backend,
    contents,
    directory,
    equal_everywhere,
    fit,
    hvd,
    jit_for_conditions,
    keras,
    model,
    own,
)
from hvdlite.exceptions import MismatchError

WAYS = {
    "distributed": lambda: hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9)),
    "local_sgd": lambda: hvd.LocalSGD(keras.optimizers.SGD(0.05, momentum=0.9), every=3),
    "diloco": lambda: hvd.DiLoCo(keras.optimizers.SGD(0.05), every=3),
    "onebit_adam": lambda: hvd.OneBitAdam(0.01, freeze_step=3),
    "lars": lambda: hvd.DistributedOptimizer(hvd.LARS(0.1, momentum=0.9, trust=0.05)),
}
LOCAL = ("local_sgd", "diloco")
BY_TIME = {
    "local_sgd": lambda: hvd.LocalSGD(keras.optimizers.SGD(0.05), every="1ms", momentum="average"),
    "diloco": lambda: hvd.DiLoCo(keras.optimizers.SGD(0.05), every="1ms"),
}


def _trained(here: Here, net: Any, optimizer: Any, steps: int = STEPS, **more: Any) -> None:
    fit(net, optimizer, *own(here, steps), **{"jit_compile": jit_for_conditions()} | more)


def _equal(here: Here, net: Any) -> None:
    if hasattr(net.optimizer, "sync"):
        net.optimizer.sync()
    weights = contents(net.weights)
    equal_everywhere(here, weights)
    assert all(np.isfinite(each).all() for each in weights)


@check(way=tuple(WAYS), min_ranks=2, seconds=60)
def all_callbacks_together(here: Here, way: str) -> None:
    where = directory(here)
    best = hvd.callbacks.BestModelCheckpoint(save_weights_only=True)
    best.filepath = os.path.join(where, "best.weights.h5")
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.LocalStepsCallback(),
        hvd.callbacks.MetricsCallback(),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.01, warmup_epochs=1),
        hvd.callbacks.LearningRateScheduleCallback(0.01, 0.5, start_epoch=1),
        hvd.callbacks.DriftGuardCallback(),
        best,
    ]
    assert {type(each).__name__ for each in callbacks} == set(hvd.callbacks.__all__)
    net, optimizer = model(seed=here.rank), WAYS[way]()
    for _ in range(2):
        _trained(here, net, optimizer, callbacks=callbacks, validation_data=own(here, 1))
    _equal(here, net)
    hvd.allgather_object(None)
    if here.rank == 0:
        assert os.path.exists(best.filepath)
        shutil.rmtree(where)


@check(way=tuple(WAYS), min_ranks=2, seconds=60)
def an_overflow_of_half_precision_on_one_rank(here: Here, way: str) -> None:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        net, optimizer = model(), WAYS[way]()
        if way == "onebit_adam":
            with raises(ValueError, "this OneBitAdam is inside a LossScaleOptimizer"):
                _trained(here, net, optimizer)
            return
        _trained(here, net, optimizer)
        x, y = own(here)
        if way in LOCAL:  # the rank skips its own step, and is there when an average is due
            before = contents(net.weights)
            if here.rank == 1:
                x = x.copy()
                x[0, 0] = 1e30
            net.fit(x, y, batch_size=EACH, verbose=0)
            _equal(here, net)
            assert np.abs(contents(net.weights)[0] - before[0]).max() > 0
        else:
            all_skip_an_overflow(here, net, x, y)
    finally:
        keras.config.set_dtype_policy("float32")


@check(seconds=30)
def the_callback_of_local_steps_beside_a_plain_optimizer_is_refused(here: Here) -> None:
    with raises(TypeError, "compiled with a plain SGD", "hvd.LocalSGD(...)"):
        callbacks = [hvd.callbacks.LocalStepsCallback()]
        fit(model(), keras.optimizers.SGD(0.1), *own(here), callbacks=callbacks)


@check(way=LOCAL, seconds=30)
def inside_loss_scaling_it_is_refused(here: Here, way: str) -> None:
    """A rank that skips a step would not be there when an average is due."""
    around = {"local_sgd": "hvd.LocalSGD(", "diloco": "hvd.DiLoCo("}[way]
    with raises(ValueError, f"{around}keras.optimizers.LossScaleOptimizer(optimizer)"):
        scaled = keras.optimizers.LossScaleOptimizer(WAYS[way]())
        scaled.build([keras.Variable(np.ones(3, "float32"))])


@check(way=tuple(WAYS), min_ranks=2, seconds=30)
def a_gradient_that_one_rank_lacks(here: Here, way: str) -> None:
    """It counts as zeros. What all lack stays missing. TensorFlow's graphs are made before ranks
    can tell one another what they lack, so there it is refused."""
    needs(backend() != "jax", "torch or TensorFlow: on JAX every variable has a gradient")
    if backend() == "tensorflow" and way not in LOCAL:
        variables = [keras.Variable(np.ones(3, "float32"), name=f"v{i}") for i in range(3)]
        there = keras.ops.ones(3)
        with raises(MismatchError, "variables without a gradient (numbers behind the 0)"):
            WAYS[way]().apply([there, None if here.rank == 1 else there, None], variables)
        return
    begin = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)
    results = []
    for lacks in (True, False):
        variables = [keras.Variable(begin, name=f"v{i}") for i in range(3)]
        optimizer = WAYS[way]()
        for step in range(7):
            gradient = keras.ops.convert_to_tensor(np.cos(begin * (step + here.rank)))
            nothing = None if lacks else keras.ops.zeros_like(gradient)
            odd = step % 2 == 1 and here.rank == 1
            optimizer.apply([gradient, nothing if odd else gradient, None], variables)
        if way in LOCAL:
            optimizer.sync()
        results.append(contents(variables))
        equal_everywhere(here, results[-1])
        np.testing.assert_array_equal(results[-1][2], begin)
        assert np.abs(results[-1][1] - begin).max() > 0
    if way not in LOCAL:  # there, Keras leaves the variable out of this rank's own step
        for mine, theirs in zip(*results, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@check(way=tuple(WAYS), min_ranks=2, seconds=90)
def a_layer_that_is_frozen_and_thawed(here: Here, way: str) -> None:
    """Keras wants compile() after a change of `trainable`."""
    net, optimizer = model(), WAYS[way]()
    _trained(here, net, optimizer, epochs=1)
    net.layers[1].trainable = False
    if backend() == "jax":  # whose steps are functions of all variables of the optimizer
        with raises(ValueError, "trainable"):
            _trained(here, net, optimizer, epochs=1)
        return
    _trained(here, net, optimizer, epochs=1)
    if way in LOCAL:
        optimizer.sync()
    frozen = contents(net.layers[1].weights)
    _equal(here, net)
    _trained(here, net, optimizer, epochs=1)
    if way in LOCAL:
        optimizer.sync()
    for before, now in zip(frozen, contents(net.layers[1].weights), strict=True):
        np.testing.assert_allclose(now, before, atol=1e-6)
    net.layers[1].trainable = True
    _trained(here, net, optimizer, epochs=1)
    _equal(here, net)
    assert np.abs(contents(net.layers[1].weights)[0] - frozen[0]).max() > 1e-5


@check(way=LOCAL, min_ranks=2, seconds=60)
def ranks_of_uneven_speed_with_averages_by_time(here: Here, way: str) -> None:
    """Rank 0 makes a quarter of the others' steps, and so of their averages."""
    net, optimizer = model(), BY_TIME[way]()
    callbacks = [hvd.callbacks.MetricAverageCallback(), hvd.callbacks.LocalStepsCallback()]
    steps = 1 if here.rank == 0 else STEPS
    _trained(here, net, optimizer, steps, callbacks=callbacks)
    equal_everywhere(here, contents(net.weights))
    _trained(here, net, optimizer, steps)
    _equal(here, net)
