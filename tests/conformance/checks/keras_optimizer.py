"""Keras: what a distributed optimizer is, what it refuses, and what files say of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
from machine import within

from checks import check
from checks.here import Here, raises
from checks.keras_here import (
    contents,
    data,
    directory,
    equal_everywhere,
    fit,
    hvd,
    jit_for_conditions,
    keras,
    legacy,
    model,
    part,
    state,
)  # fmt: skip


@check(seconds=30)
def it_is_the_same_optimizer_of_a_subclass_with_the_same_name(here: Here) -> None:
    plain = keras.optimizers.Adam(0.125)
    base = type(plain)
    optimizer = hvd.DistributedOptimizer(plain)
    assert optimizer is plain and isinstance(optimizer, base) and type(optimizer) is not base
    assert type(optimizer).__name__ == base.__name__ and type(optimizer).__module__ == base.__module__
    config = optimizer.get_config()
    for copy in (optimizer.from_config(dict(config)), type(optimizer).from_config(dict(config))):
        assert copy.get_config() == config and type(copy) is type(optimizer)
    assert type(keras.optimizers.Adam()) is base, "the class that was wrapped is as it was"
    with raises(ValueError, "already"):
        hvd.DistributedOptimizer(optimizer)


@check(seconds=30)
def a_copy_by_from_config_reduces_as_well(here: Here) -> None:
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    net = model()
    x, y = data(here)
    fit(net, type(optimizer).from_config(optimizer.get_config()), part(here, x), part(here, y))
    equal_everywhere(here, state(net))


@check(seconds=30)
def arguments_that_cannot_be_are_refused(here: Here) -> None:
    for options, words in (
        ({"op": hvd.Min}, "op currently only supports Average and Sum"),
        ({"op": hvd.Adasum}, "op currently only supports Average and Sum"),
        ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "gradient_predivide_factor"),
        ({"backward_passes_per_step": 0}, "backward_passes_per_step"),
        ({"groups": "two"}, "groups"),
        ({"groups": -1}, "groups"),
        ({"compression": _Sending()}, "communicate()"),
    ):
        with raises(ValueError, words):
            hvd.DistributedOptimizer(keras.optimizers.SGD(), **options)
    with raises(TypeError, "expected an optimizer"):
        hvd.DistributedOptimizer("sgd")
    with raises(ValueError, "local_layers"):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(), local_layers="dense")


class _Sending:
    def compress(self, tensor: Any) -> Any:
        return tensor, None

    def decompress(self, tensor: Any, ctx: Any) -> Any:
        return tensor

    def communicate(self, payload: Any, name: Any, op: Any, process_set: Any) -> Any:
        raise AssertionError("never called")


_LOADING = """
import numpy, sys
sys.modules["hvdlite"] = None  # importing it fails
import {keras} as keras
model = keras.models.load_model({path!r})
print(type(model.optimizer).__name__, type(model.optimizer).__mro__[0].__module__, int(model.optimizer.iterations))
model.fit(numpy.zeros((1, 6)), numpy.zeros((1, 2)), verbose=0)
"""


@check(seconds=90)
def a_file_loads_without_hvdlite_and_with_it_goes_on(here: Here) -> None:
    """With gradients that wait for others: they are variables of the optimizer, but not in the file."""
    where = directory(here)
    try:
        net = model()
        x, y = data(here)
        x, y = part(here, x), part(here, y)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01), backward_passes_per_step=2)
        fit(net, optimizer, x, y, jit_compile=jit_for_conditions())
        path = os.path.join(where, "model.keras")
        if here.rank == 0:
            net.save(path)
        # A collective: nobody loads before the file is there.
        equal_everywhere(here, state(net))
        if here.rank == 0:
            program = _LOADING.format(keras="tf_keras" if legacy() else "keras", path=path)
            env = {k: v for k, v in os.environ.items() if not k.startswith("HVDLITE_")}
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, timeout=within(80), env=env
            )
            assert done.returncode == 0, done.stderr
            name, module, iterations = done.stdout.split()
            assert name == "Adam" and "keras" in module and int(iterations) == 8, done.stdout
        loaded = hvd.load_model(path)
        for a, b in zip(_plain(loaded), _plain(net), strict=True):
            np.testing.assert_array_equal(a, b)
        with raises(ValueError, "already"):
            hvd.DistributedOptimizer(loaded.optimizer)
        if here.rank:
            x = x[::-1].copy()
        loaded.fit(x, y, batch_size=4, verbose=0)
        equal_everywhere(here, _plain(loaded))
    finally:
        if here.rank == 0:
            shutil.rmtree(where)


def _plain(net: Any) -> list[np.ndarray]:
    """Weights, and the state that the optimizer has without hvdlite."""
    variables = net.optimizer.variables
    variables = variables() if callable(variables) else variables
    return contents(net.weights) + contents(v for v in variables if not _waits(v))


def _waits(variable: Any) -> bool:
    return any(word in getattr(variable, "path", variable.name) for word in ("sum_of_gradients", "passes"))
