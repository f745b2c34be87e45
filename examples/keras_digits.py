"""Trains a convolutional network on handwritten digits with Keras 3, on any backend.

KERAS_BACKEND=torch      hvdliterun -np 2 python examples/keras_digits.py
KERAS_BACKEND=jax        hvdliterun -np 2 python examples/keras_digits.py
KERAS_BACKEND=tensorflow hvdliterun -np 2 python examples/keras_digits.py
"""

import argparse

import keras
import numpy as np
from sklearn.datasets import load_digits

import hvdlite.keras as hvd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16, help="per rank")
    args = parser.parse_args()

    hvd.init()
    digits = load_digits()
    x, y = digits.data.reshape(-1, 8, 8, 1).astype("float32") / 16, digits.target
    train, test = np.split(np.random.default_rng(0).permutation(len(x)), [1440])
    # The same number of samples for each rank, so all ranks make the same number of steps.
    mine = train[: len(train) // hvd.size() * hvd.size()][hvd.rank() :: hvd.size()]

    # each rank has its own dropout; the callback makes the weights equal
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.25),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    # The global batch grows with the number of ranks, and so does the learning rate.
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size()))
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.001 * hvd.size(), warmup_epochs=2),
    ]
    model.fit(
        x[mine],
        y[mine],
        batch_size=args.batch_size,
        epochs=args.epochs,
        callbacks=callbacks,
        verbose=0,
    )

    loss, accuracy = model.evaluate(x[test], y[test], verbose=0)
    if hvd.rank() == 0:
        print(
            f"{keras.backend.backend()}, {hvd.size()} ranks: test loss {loss:.4f}, accuracy "
            f"{accuracy:.4f}",
            flush=True,
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
