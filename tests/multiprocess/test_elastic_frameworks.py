"""Elastic jobs of JAX, Keras and TensorFlow: a rank is killed in the middle of a step.

The job has as many ranks as before when it goes on, and its data come from the step's number and
the rank. So the weights in the end have to be those of a run without a death, bit for bit.
"""

from __future__ import annotations

import re
import sys

import pytest
from installed import needs_installed
from launched import Job
from tier import one_of

pytestmark = pytest.mark.costly

# Compiling takes XLA most of a run's time, and how fast its result is does not matter here.
HASTY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

BACKENDS = ("tensorflow", "tensorflow-compiled", "torch", "jax")

# What each program begins with. `dies(step)` comes before a step, in which the others wait then.
PRELUDE = """
import hashlib, os, signal
import numpy as np
MEMBER = int(os.environ["HVDLITE_MEMBER"])
STEPS = 12
def data(step, rank):
    random = np.random.default_rng([step, rank])
    x = random.normal(size=(8, 6)).astype("float32")
    return x, (x.sum(1) > 0).astype("int32")
def dies(step):
    if {kills} and MEMBER == 2 and step == 6:
        os.kill(os.getpid(), signal.SIGKILL)
def tell(arrays):
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    print(f"member {{MEMBER}} ends as {{digest.hexdigest()}} in {{hvd.elastic.generation()}}",
          flush=True)
"""

JAX = """
import jax, jax.numpy as jnp, optax
import hvdlite.jax as hvd
hvd.init()
optimizer = hvd.distributed(optax.adam(0.01))
params = {"w": jax.random.normal(jax.random.key(0), (6, 3)), "b": jnp.zeros(3)}
state = hvd.elastic.JaxState(params=params, opt_state=optimizer.init(params), at=0)
def loss_of(params, x, y):
    logits = x @ params["w"] + params["b"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
def update(params, opt_state, x, y):
    updates, opt_state = optimizer.update(jax.grad(loss_of)(params, x, y), opt_state, params)
    return optax.apply_updates(params, updates), opt_state
step = jax.jit(update, donate_argnums=DONATED)

@hvd.elastic.run
def train(state):
    while state.at < STEPS:
        x, y = data(state.at, hvd.rank())
        dies(state.at)
        state.params, state.opt_state = step(state.params, state.opt_state, x, y)
        state.at += 1
        state.END_OF_STEP()

train(state)
tell(jax.tree_util.tree_leaves((state.params, state.opt_state)))
"""

# Each rank has seeds of its own. The layers' state is what a failed step spoils: moving averages,
# how far a seed has got, and with weight decay all weights.
KERAS = """
import keras
import hvdlite.keras as hvd
hvd.init()
keras.utils.set_random_seed(hvd.rank())
model = keras.Sequential([
    keras.Input((6,)), keras.layers.Dense(16), keras.layers.BatchNormalization(),
    keras.layers.Dropout(0.3, seed=hvd.rank() + 5), keras.layers.Dense(2)])
optimizer = hvd.DistributedOptimizer(keras.optimizers.AdamW(0.01, weight_decay=0.1))
model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"], jit_compile=COMPILED)
x, y = data(0, 0)
x, y = np.tile(x, (12, 1)) + np.arange(96)[:, None].astype("float32") / 96, np.tile(y, 12)
cursor = hvd.elastic.Cursor(96, batch_size=8)
state = hvd.elastic.KerasState(model, cursor=cursor, at=0)

class Progress(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None): dies(state.at)
    def on_train_batch_end(self, batch, logs=None): state.at += 1

@hvd.elastic.run
def train(state):
    while cursor.epoch < 2:
        model.fit(cursor.keras(x, y), initial_epoch=cursor.epoch, epochs=cursor.epoch + 1,
                  shuffle=False, verbose=0,
                  callbacks=[Progress(), hvd.elastic.END_OF_STEPStateCallback(state)])

train(state)
assert state.at == STEPS, state.at
shared = [v for v in model.weights + optimizer.variables if "moving" not in v.path]
tell([keras.ops.convert_to_numpy(v) for v in shared])
if hvd.rank() == 0:  # where another rank has died, its moving averages are lost
    moving = [keras.ops.convert_to_numpy(v) for v in model.weights if "moving" in v.path]
    print("moving", [m.tobytes().hex() for m in moving], flush=True)
"""

TENSORFLOW = """
import tensorflow as tf
import hvdlite.tensorflow as hvd
hvd.init()
tf.keras.utils.set_random_seed(7)
model = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(2)])
optimizer = tf.keras.optimizers.AdamW(0.01, weight_decay=0.1)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
x, y = data(0, 0)
x, y = np.tile(x, (12, 1)) + np.arange(96)[:, None].astype("float32") / 96, np.tile(y, 12)
cursor = hvd.elastic.Cursor(96, batch_size=8)
batches = cursor.indices_dataset().map(lambda i: (tf.gather(x, i), tf.gather(y, i))).prefetch(4)
state = hvd.elastic.STATE, cursor=cursor, at=0)

@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

@hvd.elastic.run
def train(state):
    for x, y in cursor.track(batches, epochs=2):
        dies(state.at)
        step(x, y)
        state.at += 1
        state.END_OF_STEP()

train(state)
assert state.at == STEPS, state.at
tell([v.numpy() for v in model.variables + optimizer.variables])
"""


def _ends(job: Job, program: str, kills: bool, **environment: str) -> tuple[list[str], set[int]]:
    """What all members have in the end, what rank 0 has beside it, and the members' numbers."""
    path = job.script(PRELUDE.format(kills=kills) + program)
    done = job.end_well("-np", "2", "--min-np", "2", sys.executable, path, **environment)
    found = re.findall(r"member (\d) ends as (\w+) in (\d)", done.stdout.decode())
    assert {generation for *_, generation in found} == {"2" if kills else "1"}
    assert job.pids() == []
    moving = sorted(re.findall(r"moving .*", done.stdout.decode()))
    ends = sorted({digest for _, digest, _ in found}) + moving
    return ends, {int(member) for member, *_ in found}


def _is_undisturbed(job: Job, program: str, **environment: str) -> None:
    alone, members = _ends(job, program, kills=False, **environment)
    assert len(alone) in (1, 2) and members == {1, 2}, "ranks differ"
    assert _ends(job, program, kills=True, **environment) == (alone, {1, 3})


@pytest.mark.watchdog(150)
@pytest.mark.parametrize("end_of_step", one_of(("step", "commit"), "the end of JAX's steps"))
@pytest.mark.parametrize("donated", ["()", "(0, 1)"], ids=["kept", "donated"])
def test_jax_goes_on_as_if_no_rank_had_died(job: Job, donated: str, end_of_step: str) -> None:
    needs_installed("jax", "optax")
    program = JAX.replace("DONATED", donated).replace("END_OF_STEP", end_of_step)
    _is_undisturbed(job, program)


@pytest.mark.watchdog(150)
@pytest.mark.parametrize("end_of_step", one_of(("Step", "Commit"), "the end of Keras' steps"))
@pytest.mark.parametrize("backend", one_of(BACKENDS, "a backend of elastic Keras"))
def test_keras_goes_on_as_if_no_rank_had_died(job: Job, backend: str, end_of_step: str) -> None:
    backend, _, compiled = backend.partition("-")
    needs_installed("keras", backend)
    program = KERAS.replace("COMPILED", repr(bool(compiled) or "auto"))
    _is_undisturbed(
        job, program.replace("END_OF_STEP", end_of_step),
        KERAS_BACKEND=backend, TF_CPP_MIN_LOG_LEVEL="3", XLA_FLAGS=HASTY,
    )  # fmt: skip


@pytest.mark.watchdog(150)
@pytest.mark.parametrize("end_of_step", one_of(("step", "commit"), "the end of a graph's steps"))
@pytest.mark.parametrize("state", one_of(("variables", "keras"), "a state of TensorFlow"))
def test_tensorflow_goes_on_as_if_no_rank_had_died(job: Job, state: str, end_of_step: str) -> None:
    needs_installed("tensorflow")
    made = {
        "variables": "TensorFlowState(model.variables + optimizer.variables",
        "keras": "TensorFlowKerasState(model, optimizer",
    }[state]
    program = TENSORFLOW.replace("STATE", made).replace("END_OF_STEP", end_of_step)
    if state == "variables":
        program = program.replace("state =", "optimizer.build(model.trainable_variables)\nstate =")
    _is_undisturbed(job, program, TF_CPP_MIN_LOG_LEVEL="3")
