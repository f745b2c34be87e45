"""A gradient before hvd.init() is an error: a process that trained alone would say nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from installed import needs_installed
from machine import within

ROOT = Path(__file__).resolve().parents[2]

TENSORFLOW = """
import tensorflow as tf, hvdlite.tensorflow as hvd
x = tf.Variable([1.0])

def gradient():
    with tf.GradientTape() as tape:
        y = x * x
    return hvd.DistributedGradientTape(tape).gradient(y, [x])

def of_partial_tape():
    with tf.GradientTape() as tape:
        y = x * x
    return hvd.PartialDistributedGradientTape(tape).gradient(y, [x])

legacy = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
calls = [
    gradient, of_partial_tape, tf.function(gradient), tf.function(gradient, jit_compile=True),
    lambda: legacy.compute_gradients(lambda: x * x, [x]),
    lambda: hvd._make_allreduce_grads_fn(
        "f", "", "", hvd.Compression.none, False, hvd.Average, 1.0, None)([tf.ones(1)], [x]),
]
"""

KERAS = """
import keras, hvdlite.keras as hvd
calls = [lambda: hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))]
"""

JAX = """
import jax, jax.numpy as jnp, hvdlite.jax as hvd
from collections import namedtuple
Plain = namedtuple("Plain", "init update")
optimizer = hvd.distributed(Plain(lambda p: (), lambda g, state, p=None: (g, state)))
calls = [
    lambda: optimizer.update(jnp.ones(3), ()),
    lambda: jax.jit(lambda g: optimizer.update(g, ())[0])(jnp.ones(3)),
]
"""

TORCH = """
import torch, hvdlite.torch as hvd
model = torch.nn.Linear(2, 1)
def optimizer(**given):
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    return hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(), **given)
calls = [optimizer, lambda: optimizer(op=hvd.Adasum)]
"""

CHECK = """
from hvdlite.exceptions import NotInitializedError

for number, call in enumerate(calls):
    try:
        call()
    except NotInitializedError as error:
        assert isinstance(error, ValueError) and "hvd.init()" in str(error), error
    else:
        raise AssertionError(f"call {number} has trained alone")
"""


@pytest.mark.costly
@pytest.mark.parametrize(
    ("program", "framework"),
    [(TORCH, "torch"), (TENSORFLOW, "tensorflow"), (JAX, "jax"), (KERAS, "keras")],
    ids=["torch", "tensorflow", "jax", "keras"],
)
def test_gradients_before_init_are_an_error(program: str, framework: str) -> None:
    needs_installed(framework)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HVDLITE_", "HOROVOD_"))}
    done = subprocess.run(
        [sys.executable, "-c", program + CHECK],
        capture_output=True,
        text=True,
        env=clean | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"},
        timeout=within(120),
    )
    assert done.returncode == 0, done.stderr
