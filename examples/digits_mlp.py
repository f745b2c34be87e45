"""Trains a small network on handwritten digits, with numpy only and any number of processes.

    hvdliterun -np 2 python examples/digits_mlp.py

Each rank trains on its own part of the data. The gradients are averaged, so all ranks keep the same
weights.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits

import hvdlite as hvd


def forward(weights, x):
    hidden = np.maximum(x @ weights["w1"] + weights["b1"], 0)
    logits = hidden @ weights["w2"] + weights["b2"]
    logits = logits - logits.max(axis=1, keepdims=True)
    probabilities = np.exp(logits)
    return hidden, probabilities / probabilities.sum(axis=1, keepdims=True)


def gradients(weights, x, labels):
    """Returns the cross-entropy loss of one batch and its gradient."""
    hidden, probabilities = forward(weights, x)
    count = len(x)
    loss = -np.log(probabilities[np.arange(count), labels] + 1e-9).mean()
    d_logits = probabilities
    d_logits[np.arange(count), labels] -= 1
    d_logits /= count
    d_hidden = (d_logits @ weights["w2"].T) * (hidden > 0)
    return loss, {
        "w1": x.T @ d_hidden,
        "b1": d_hidden.sum(axis=0),
        "w2": hidden.T @ d_logits,
        "b2": d_logits.sum(axis=0),
    }


def accuracy(weights, x, labels):
    return float((forward(weights, x)[1].argmax(axis=1) == labels).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32, help="per rank")
    parser.add_argument(
        "--lr", type=float, default=0.1, help="per rank; multiplied by the number of ranks"
    )
    args = parser.parse_args()

    hvd.init()
    digits = load_digits()
    x, labels = (digits.data / 16.0).astype(np.float32), digits.target
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:1437], order[1437:]
    mine = train[hvd.rank() :: hvd.size()]

    # Weights differ between ranks here; broadcast_ makes them equal to rank 0's.
    random = np.random.default_rng(hvd.rank())
    weights = {
        "w1": (random.standard_normal((64, 128)) * 0.1).astype(np.float32),
        "b1": np.zeros(128, np.float32),
        "w2": (random.standard_normal((128, 10)) * 0.1).astype(np.float32),
        "b2": np.zeros(10, np.float32),
    }
    for name, value in weights.items():
        hvd.broadcast_(value, root_rank=0, name=name)

    velocity = {name: np.zeros_like(value) for name, value in weights.items()}
    # All ranks must make the same number of steps: the smallest part of the data decides.
    steps = len(train) // hvd.size() // args.batch_size
    start = time.perf_counter()
    for epoch in range(args.epochs):
        random = np.random.default_rng([epoch, hvd.rank()])
        shuffled = random.permutation(mine)
        losses = []
        for step in range(steps):
            batch = shuffled[step * args.batch_size : (step + 1) * args.batch_size]
            loss, grads = gradients(weights, x[batch], labels[batch])
            names = list(grads)
            for name, grad in zip(
                names, hvd.grouped_allreduce([grads[n] for n in names], name="grads"), strict=True
            ):
                velocity[name] = 0.9 * velocity[name] + grad
                weights[name] -= args.lr * hvd.size() * 0.25 * velocity[name]
            losses.append(loss)
        mean_loss = float(hvd.allreduce(np.array(np.mean(losses))))
        if hvd.rank() == 0:
            print(
                f"epoch {epoch + 1:2d}  loss {mean_loss:.4f}  "
                f"test accuracy {accuracy(weights, x[test], labels[test]):.4f}"
            )
    seconds = time.perf_counter() - start

    # This proves that the ranks stayed together: all weights equal rank 0's.
    for name, value in weights.items():
        assert np.array_equal(value, hvd.broadcast(value, root_rank=0)), (
            f"{name} differs on rank {hvd.rank()}"
        )
    if hvd.rank() == 0:
        samples = args.epochs * steps * args.batch_size * hvd.size()
        print(f"{hvd.size()} ranks, {samples / seconds:.0f} samples/s, weights equal on all ranks")
    hvd.shutdown()


if __name__ == "__main__":
    main()
