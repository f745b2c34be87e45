"""Trains digits with Keras 3 on ranks that may die, leave and come while it trains.

    hvdliterun -np 2 --min-np 1 -x KERAS_BACKEND=jax python examples/keras_elastic_digits.py

fit() is not left: the ranks that are left go on in it, and a new process enters it in the middle.
`--kill` ends one rank, as a crash would. It needs keras with a backend (tensorflow, torch or jax)
and scikit-learn.
"""

import argparse
import os
import signal

import keras
import numpy as np
from sklearn.datasets import load_digits

import hvdlite.keras as hvd

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--kill", action="store_true", help="kill rank 1 once, in the second epoch")
args = parser.parse_args()

hvd.init()
keras.utils.set_random_seed(hvd.rank())
digits = load_digits()
images, labels = digits.data.astype("float32") / 16, digits.target
train, test = np.split(np.random.default_rng(0).permutation(len(images)), [1437])

model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.002))
model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])


def say(text):
    if hvd.rank() == 0:
        print(text, flush=True)


class Death(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        first = hvd.elastic.member() == 2  # of those that hvdliterun starts
        if args.kill and first and (self.epoch, batch) == (1, 5):
            os.kill(os.getpid(), signal.SIGKILL)


class Accuracy(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs):
        accuracy = logs["val_accuracy"]
        print(f"epoch {epoch + 1}  test accuracy {accuracy:.3f}  {hvd.size()} rank(s)", flush=True)


hvd.elastic.fit(
    model, images[train], labels[train], batch_size=32, epochs=args.epochs, verbose=0,
    validation_data=(images[test], labels[test]),
    callbacks=[hvd.callbacks.MetricAverageCallback(), Death()],
    on_rank_0=[Accuracy()],
    on_change=lambda before, now: say(f"{now} rank(s) go on, {before} before"),
)  # fmt: skip
flat = np.concatenate([keras.ops.convert_to_numpy(v).ravel() for v in model.weights])
weights = np.array(hvd.allgather(flat[None]))
say(f"weights equal on all ranks: {bool((weights == weights[0]).all())}")
