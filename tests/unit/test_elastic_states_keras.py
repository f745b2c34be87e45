"""KerasState, its callbacks and the update gate in one process, on each backend of Keras."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from machine import within

ROOT = Path(__file__).resolve().parents[2]

# HVDLITE_ELASTIC alone: optimizers have their gate, and there is no driver.
BEGIN = """
import numpy as np, keras
import hvdlite.keras as hvd
from hvdlite.core import engine
from hvdlite.rendezvous.documents import Role
hvd.init()
keras.utils.set_random_seed(1)
X, Y = np.random.normal(size=(8, 6)).astype("float32"), np.array([0, 1] * 4)

def made(distributed=True, **options):
    layers = [keras.Input((6,)), keras.layers.Dense(4), keras.layers.BatchNormalization(),
              keras.layers.Dropout(0.5, seed=3), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.2)
    if distributed:
        optimizer = hvd.DistributedOptimizer(optimizer, **options)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=COMPILED)
    return model

def numbers(variables):
    return [np.array(keras.ops.convert_to_numpy(v)) for v in variables]

def everything(model):
    return numbers([*model.variables, *model.metrics_variables, *model.optimizer.variables])

def same(one, other):
    return len(one) == len(other) and all(map(np.array_equal, one, other))

def fails(function):
    try:
        hvd.elastic.run(lambda state: function())(hvd.elastic.ObjectState())
    except Exception as error:
        return error
    raise AssertionError("no error")

def step_that_fails(model):
    engine.abort("rank 0 was lost")
    error = fails(lambda: model.train_on_batch(X, Y))
    assert isinstance(error, hvd.HorovodInternalError) and error.retryable, repr(error)
    hvd.shutdown()
    hvd.init()
"""

NAMES = """
import inspect
horovods = {
    "KerasState": "model optimizer kwargs", "CommitStateCallback": "state batches_per_commit",
    "UpdateBatchStateCallback": "state", "UpdateEpochStateCallback": "state", "run": "func"}
assert set(hvd.elastic.__all__) == {*horovods, "StepStateCallback", "fit"}
for name, parameters in horovods.items():
    found = inspect.signature(getattr(hvd.elastic, name)).parameters
    assert list(found) == parameters.split(), (name, found)
"""

RESTORE = """
model = made()
state = hvd.elastic.KerasState(model, at=0)
assert state.optimizer is model.optimizer and state.model is model
model.train_on_batch(X, Y)
state.at = 1
state.commit()
before = everything(model)
for _ in range(2):
    model.train_on_batch(X, Y)
    state.at = 5
    assert not same(before, everything(model))
    state.restore()
    assert same(before, everything(model)) and state.at == 1
state.sync()
assert same(before, everything(model))
"""

# The gate: a step whose reduction has failed leaves weights and optimizer as they were; and
# put_back() undoes what is not behind the gate.
FAILED = """
for options in ({}, {"backward_passes_per_step": 2}, {"distributed": False}):
    model = made(**options)
    state = hvd.elastic.KerasState(model)
    state._marks.steps = True
    state._take_role(Role.KEEP, None, 0)
    for position in (1, 2):
        model.train_on_batch(X, Y)
        if "backward_passes_per_step" in options:
            model.train_on_batch(X, Y)
        state.step()
        before = everything(model)
        if "backward_passes_per_step" in options:
            model.train_on_batch(X, Y)
        if "distributed" in options:
            model.train_on_batch(X, Y)
        else:
            updated = [*model.trainable_variables, *model.optimizer.variables]
            weights = [] if not GATED or options else numbers(updated)
            step_that_fails(model)
            assert not weights or same(weights, numbers(updated)), "the update is torn"
        assert state._progress().whole
        state._take_role(Role.KEEP, None, position)
        assert same(before, everything(model)), "the step is not undone"
"""

TORN = """
model = made()
state = hvd.elastic.KerasState(model)
model.train_on_batch(X, Y)
state.step()
assert state._progress().whole
model.train_on_batch(X, Y)
assert state._progress().whole != GATED, "nothing has noted the update"
state._take_role(Role.RESTORE, None, 1)
assert state._progress().whole
"""

# A model whose state is made before it was built is refused; a frozen layer is not copied.
MODELS = """
from hvdlite.keras.elastic import gate
try:
    hvd.elastic.KerasState(keras.Sequential([keras.layers.Dense(2)]))
except ValueError as error:
    assert "build it" in str(error)
else:
    raise AssertionError("no error")
try:
    hvd.elastic.KerasState(keras.layers.Dense(2))
except TypeError as error:
    assert "got Dense" in str(error)
else:
    raise AssertionError("no error")
model = made()
model.layers[0].trainable = False
model.compile(model.optimizer, model.loss, jit_compile=COMPILED)
state = hvd.elastic.KerasState(model, other=made())
model.train_on_batch(X, Y)
found = state._handlers["model"].not_guarded()
assert gate.guards(model.optimizer) == GATED == (found is not None)
names = {v.name for v in found or state._handlers["model"].variables()}
assert names >= {"moving_mean", "moving_variance", "seed_generator_state"}
assert not GATED or not names & {
    "kernel", "bias", "gamma", "beta", "iteration", "learning_rate"}, names
state.other.train_on_batch(X, Y)
state.commit()
before = everything(state.other)
state.other.train_on_batch(X, Y)
state.restore()
assert same(before, everything(state.other))
"""

CALLBACKS = """
told = []
cursor = hvd.elastic.Cursor(48, batch_size=8)
model = made()
state = hvd.elastic.KerasState(model, epoch=0, batch=0, cursor=cursor)
commit, step = state.commit, state.step
state.commit = lambda: (told.append(("commit", state.epoch, state.batch, cursor.sample)), commit())
state.step = lambda: (told.append(("step", state.epoch, state.batch, cursor.sample)), step())
hvd_ = hvd.elastic
update = [hvd_.UpdateBatchStateCallback(state), hvd_.UpdateEpochStateCallback(state)]
x = np.random.normal(size=(48, 6)).astype("float32")
y = np.arange(48) % 2

def fit(*callbacks, **options):
    told.clear()
    model.fit(cursor.keras(x, y), shuffle=False, verbose=0, callbacks=[*update, *callbacks],
              **options)
    return list(told)

assert fit(hvd_.CommitStateCallback(state, batches_per_commit=4)) == [
    ("commit", 0, 3, 32), ("commit", 1, 0, 0)]
assert (cursor.epoch, state.epoch, state.batch) == (1, 1, 0)
assert fit(hvd_.StepStateCallback(state)) == [
    *(("step", 1, batch, 8 * (batch + 1) % 48) for batch in range(6)), ("step", 2, 0, 0)]
assert (cursor.epoch, state.epoch, cursor.sample) == (2, 2, 0)

# In the middle of an epoch.
cursor.begin(), cursor.whole()
state.batch = 2
seen = []
class Steps(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None): seen.append(self.params["steps"])
model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[update[0], Steps()])
assert seen == [4, 6] and state.batch == 0, seen
"""

# Several batches in one call of the compiled function are one step of the state.
EXECUTION = """
model.compile(model.optimizer, model.loss, steps_per_execution=5, jit_compile=COMPILED)
assert fit(hvd_.CommitStateCallback(state)) == [("commit", 2, 4, 0), ("commit", 3, 0, 0)]
"""


@pytest.mark.costly
@pytest.mark.parametrize("backend", ["tensorflow", "tensorflow-compiled", "torch", "jax"])
def test_a_model_survives_a_rank(backend: str) -> None:
    name, _, compiled = backend.partition("-")
    if find_spec("keras") is None or find_spec(name) is None:
        pytest.skip(f"Keras on {name} is not installed")
    gated = backend in ("tensorflow", "torch")
    head = f"COMPILED, GATED = {bool(compiled) or 'auto'!r}, {gated}\n{BEGIN}"
    parts = [NAMES, RESTORE, FAILED, TORN, MODELS, CALLBACKS]
    if name != "torch":  # which knows no such thing
        parts.append(EXECUTION)
    done = subprocess.run(
        [sys.executable, "-c", head + "\n".join(parts)],
        capture_output=True,
        text=True,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "KERAS_BACKEND": name,
            "HVDLITE_ELASTIC": "1",
            "HVDLITE_ALLOW_SINGLETON": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        timeout=within(180),
    )
    assert done.returncode == 0, done.stderr[-3000:]
