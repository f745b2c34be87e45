"""Trains digits with Keras 3 on ranks that may die, leave and come while it trains.

    hvdliterun -np 2 --min-np 1 -x KERAS_BACKEND=jax python examples/keras_elastic_digits.py

`--kill` ends one rank in the middle, as a crash would. The others go on, and a new process takes
its place. It needs keras with a backend (tensorflow, torch or jax) and scikit-learn.
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
cursor = hvd.elastic.Cursor(len(train), batch_size=32)  # the job's place in its data
state = hvd.elastic.KerasState(model, cursor=cursor)


def say(text):
    if hvd.rank() == 0:
        print(text, flush=True)


class Death(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if args.kill and hvd.elastic.generation() == 1 and (cursor.epoch, hvd.rank()) == (1, 1):
            os.kill(os.getpid(), signal.SIGKILL)


@hvd.elastic.run
def fit(state):
    say(
        f"generation {hvd.elastic.generation()}: {hvd.size()} rank(s) go on at epoch {cursor.epoch}"
    )
    while cursor.epoch < args.epochs:
        model.fit(
            cursor.keras(lambda indices: (images[train[indices]], labels[train[indices]])),
            initial_epoch=cursor.epoch,
            epochs=cursor.epoch + 1,
            shuffle=False,  # the cursor does that
            verbose=0,
            callbacks=[Death(), hvd.elastic.StepStateCallback(state)],
        )
        _, correct = model.evaluate(images[test], labels[test], verbose=0)
        say(f"epoch {cursor.epoch}  test accuracy {correct:.3f}  {hvd.size()} rank(s)")


fit(state)
flat = np.concatenate([keras.ops.convert_to_numpy(v).ravel() for v in model.weights])
weights = np.array(hvd.allgather(flat[None]))
say(f"weights equal on all ranks: {bool((weights == weights[0]).all())}")
