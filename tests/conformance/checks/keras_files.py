"""Keras: what files say of a distributed optimizer."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from machine import within

from checks import COSTLY, check
from checks.here import Here, raises
from checks.keras_here import (
    contents,
    directory,
    equal_everywhere,
    fit,
    hvd,
    jit_for_conditions,
    keras,
    legacy,
    model,
    own,
    state,
)  # fmt: skip

_LOADING = """
import numpy, os, sys
sys.modules["hvdlite"] = None  # importing it fails
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # without hvdlite, torch has no such entry point
import {keras} as keras
model = keras.models.load_model({path!r})
kind = type(model.optimizer)
print(kind.__name__, kind.__mro__[0].__module__, int(model.optimizer.iterations))
model.fit(numpy.zeros((1, 6)), numpy.zeros((1, 2)), verbose=0)
"""


@contextlib.contextmanager
def _loaded_by_another_python(path: str) -> Iterator[None]:
    """Without hvdlite, and while the block runs: importing Keras takes long."""
    program = _LOADING.format(keras="tf_keras" if legacy() else "keras", path=path)
    env = {k: v for k, v in os.environ.items() if not k.startswith("HVDLITE_")}
    python = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    try:
        yield
        said, errors = python.communicate(timeout=within(80))
    finally:
        python.kill()
    assert python.returncode == 0, errors
    name, module, iterations = said.split()
    assert name == "Adam" and "keras" in module and int(iterations) == 8, said


@check(seconds=90, tags=[COSTLY])
def a_file_loads_without_hvdlite_and_with_it_goes_on(here: Here) -> None:
    """With gradients that wait for others: they are variables of the optimizer, but not in the
    file."""
    where = directory(here)
    try:
        net = model()
        x, y = own(here)
        optimizer = hvd.DistributedOptimizer(
            keras.optimizers.Adam(0.01), backward_passes_per_step=2
        )
        fit(net, optimizer, x, y, jit_compile=jit_for_conditions())
        path = os.path.join(where, "model.keras")
        if here.rank == 0:
            net.save(path)
        # A collective: nobody loads before the file is there.
        equal_everywhere(here, state(net))
        with _loaded_by_another_python(path) if here.rank == 0 else contextlib.nullcontext():
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
    return any(
        word in getattr(variable, "path", variable.name) for word in ("sum_of_gradients", "passes")
    )
