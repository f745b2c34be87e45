"""Trains a small convolutional network on handwritten digits with JAX and optax, with any number of
processes.

    hvdliterun -np 2 python examples/jax_digits.py

The whole step, including the averaging of gradients, is one compiled program.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import hvdlite.jax as hvd


def make_params(key):
    keys = jax.random.split(key, 3)
    return {
        "conv": jax.random.normal(keys[0], (3, 3, 1, 16)) * 0.3,
        "dense": jax.random.normal(keys[1], (256, 64)) * 0.06,
        "dense_bias": jnp.zeros(64),
        "out": jax.random.normal(keys[2], (64, 10)) * 0.12,
    }


def logits(params, images):
    x = jax.lax.conv_general_dilated(
        images[..., None],
        params["conv"],
        (2, 2),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    x = jax.nn.relu(x).reshape(len(images), -1)
    return jax.nn.relu(x @ params["dense"] + params["dense_bias"]) @ params["out"]


def loss_function(params, images, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, images), labels).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32, help="per rank")
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    hvd.init()
    digits = load_digits()
    x, labels = (digits.images / 16.0).astype(np.float32), digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:1437], order[1437:]
    mine = train[hvd.rank() :: hvd.size()]

    # Parameters differ between ranks here; broadcast_parameters makes them equal to rank 0's.
    params = hvd.broadcast_parameters(make_params(jax.random.key(hvd.rank())), root_rank=0)
    optimizer = hvd.distributed(optax.adam(args.lr))
    state = optimizer.init(params)

    @jax.jit
    def train_step(params, state, images, targets):
        loss, gradients = jax.value_and_grad(loss_function)(params, images, targets)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, hvd.allreduce(loss)

    @jax.jit
    def accuracy(params):
        return (logits(params, x[test]).argmax(axis=1) == labels[test]).mean()

    # All ranks must make the same number of steps: the smallest part of the data decides.
    steps = len(train) // hvd.size() // args.batch_size
    start = time.perf_counter()
    for epoch in range(args.epochs):
        shuffled = np.random.default_rng([epoch, hvd.rank()]).permutation(mine)
        for step in range(steps):
            batch = shuffled[step * args.batch_size : (step + 1) * args.batch_size]
            params, state, loss = train_step(params, state, x[batch], labels[batch])
        if hvd.rank() == 0:
            print(
                f"epoch {epoch + 1}  loss {float(loss):.4f}  test accuracy "
                f"{float(accuracy(params)):.4f}"
            )
    seconds = time.perf_counter() - start

    # This proves that the ranks stayed together: all parameters equal rank 0's.
    same = jax.tree_util.tree_map(
        lambda a, b: bool((a == b).all()), params, hvd.broadcast(params, 0)
    )
    assert all(jax.tree_util.tree_leaves(same)), same
    if hvd.rank() == 0:
        samples = args.epochs * steps * args.batch_size * hvd.size()
        print(
            f"{hvd.size()} ranks, {samples / seconds:.0f} samples/s, parameters equal on all ranks"
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
