"""Trains digits with a loop of TensorFlow 2 on ranks that may die, leave and come while it trains.

    hvdliterun -np 2 --min-np 1 python examples/tensorflow_elastic_digits.py

`--kill` ends one rank in the middle, as a crash would. The others go on, and a new process takes
its place. It needs tensorflow and scikit-learn.
"""

import argparse
import os
import signal

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import hvdlite.tensorflow as hvd

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--kill", action="store_true", help="kill rank 1 once, in the second epoch")
args = parser.parse_args()

hvd.init()
tf.keras.utils.set_random_seed(hvd.rank())
digits = load_digits()
images, labels = digits.data.astype("float32") / 16, digits.target
train, test = np.split(np.random.default_rng(0).permutation(len(images)), [1437])

model = tf.keras.Sequential(
    [
        tf.keras.Input((64,)),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10),
    ]
)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.002))
# The job's place in its data. A batch is fetched ahead; the cursor moves when its step is done.
cursor = hvd.elastic.Cursor(len(train), batch_size=32)
batches = cursor.indices_dataset().map(
    lambda indices: (
        tf.gather(images[train], indices),
        tf.gather(labels[train], indices),
    )
)
state = hvd.elastic.TensorFlowKerasState(model, optimizer, cursor=cursor)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


def say(text):
    if hvd.rank() == 0:
        print(text, flush=True)


@hvd.elastic.run
def fit(state):
    say(
        f"generation {hvd.elastic.generation()}: {hvd.size()} rank(s) go on at epoch {cursor.epoch}"
    )
    while cursor.epoch < args.epochs:
        for x, y in cursor.track(batches.prefetch(2)):
            if args.kill and hvd.elastic.generation() == 1 and (cursor.epoch, hvd.rank()) == (1, 1):
                os.kill(os.getpid(), signal.SIGKILL)
            step(x, y)
            state.step()
        correct = (model(images[test]).numpy().argmax(1) == labels[test]).mean()
        say(f"epoch {cursor.epoch}  test accuracy {correct:.3f}  {hvd.size()} rank(s)")


fit(state)
flat = tf.concat([tf.reshape(v, [-1]) for v in model.trainable_variables], 0)
weights = hvd.allgather(flat[None])
say(f"weights equal on all ranks: {bool(tf.reduce_all(weights == weights[0]))}")
