"""Trains digits with JAX and optax on ranks that may die, leave and come while it trains.

    hvdliterun -np 2 --min-np 1 python examples/jax_elastic_digits.py

`--kill` ends one rank in the middle, as a crash would. The others go on, and a new process takes
its place. It needs jax, optax and scikit-learn.
"""

import argparse
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import hvdlite.jax as hvd

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--kill", action="store_true", help="kill rank 1 once, in the second epoch")
args = parser.parse_args()

hvd.init()
digits = load_digits()
images, labels = digits.data.astype(np.float32) / 16, digits.target.astype(np.int32)
train, test = np.split(np.random.default_rng(0).permutation(len(images)), [1437])

keys = jax.random.split(jax.random.key(0))
params = {
    "hidden": jax.random.normal(keys[0], (64, 64)) * 0.2,
    "bias": jnp.zeros(64),
    "out": jax.random.normal(keys[1], (64, 10)) * 0.2,
}
optimizer = hvd.distributed(optax.adam(2e-3))
# Each step has 64 samples, whatever the number of ranks is. A sample is dealt once per epoch.
cursor = hvd.elastic.Cursor(len(train), global_batch=64, tail="drop")
state = hvd.elastic.JaxState(params=params, opt_state=optimizer.init(params), cursor=cursor)


def logits(params, x):
    return jax.nn.relu(x @ params["hidden"] + params["bias"]) @ params["out"]


@jax.jit
def step(params, opt_state, x, y, weight):
    def loss_of(params):
        losses = optax.softmax_cross_entropy_with_integer_labels(logits(params, x), y)
        return weight * losses.mean()

    updates, opt_state = optimizer.update(jax.grad(loss_of)(params), opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def say(text):
    if hvd.rank() == 0:
        print(text, flush=True)


@hvd.elastic.run
def fit(state):
    say(
        f"generation {hvd.elastic.generation()}: {hvd.size()} rank(s) go on at epoch {cursor.epoch}"
    )
    while cursor.epoch < args.epochs:
        for indices in cursor:
            mine = train[indices]
            if args.kill and hvd.elastic.generation() == 1 and (cursor.epoch, hvd.rank()) == (1, 1):
                os.kill(os.getpid(), signal.SIGKILL)
            state.params, state.opt_state = step(
                state.params, state.opt_state, images[mine], labels[mine], cursor.weight
            )
            state.step()
        correct = (logits(state.params, images[test]).argmax(1) == labels[test]).mean()
        say(f"epoch {cursor.epoch}  test accuracy {correct:.3f}  {hvd.size()} rank(s)")


fit(state)
weights = hvd.allgather(jnp.concatenate([p.ravel() for p in state.params.values()])[None])
say(f"weights equal on all ranks: {bool((weights == weights[0]).all())}")
