"""Trains on scikit-learn's digits with a custom loop of TensorFlow 2: tape, function, broadcast.

hvdliterun -np 2 python examples/tensorflow2_custom_loop.py
"""

from __future__ import annotations

import argparse

import tensorflow as tf
from sklearn.datasets import load_digits

import hvdlite.tensorflow as hvd

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--epochs", type=int, default=8)
parser.add_argument("--batch", type=int, default=32, help="of each rank")
parser.add_argument(
    "--rate", type=float, default=0.1, help="learning rate of one rank; all together learn faster"
)
arguments = parser.parse_args()

hvd.init()
# weights differ between ranks here; the broadcast below makes them equal
tf.random.set_seed(hvd.rank())

digits = load_digits()
images, labels = (digits.images / 16.0).astype("float32").reshape(-1, 64), digits.target
held_out = 360
# Each rank reads its own part, and all have the same number of batches.
batches = (
    tf.data.Dataset.from_tensor_slices((images[held_out:], labels[held_out:]))
    .shard(hvd.size(), hvd.rank())
    .shuffle(2000, seed=hvd.rank())
    .batch(arguments.batch, drop_remainder=True)
)


def layer(inputs: int, outputs: int) -> list[tf.Variable]:
    return [
        tf.Variable(tf.random.normal([inputs, outputs]) / inputs**0.5),
        tf.Variable(tf.zeros([outputs])),
    ]


hidden, output = layer(64, 64), layer(64, 10)
variables = [*hidden, *output]


def logits(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.relu(x @ hidden[0] + hidden[1]) @ output[0] + output[1]


@tf.function
def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits(x)))
    # Averages the gradients over all ranks; without this line, each rank trains alone.
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
    for variable, gradient in zip(variables, gradients, strict=True):
        variable.assign_sub(arguments.rate * hvd.size() * gradient)
    return loss


hvd.broadcast_variables(variables, root_rank=0)
for epoch in range(1, arguments.epochs + 1):
    losses = [step(x, y) for x, y in batches]
    loss = float(hvd.allreduce(tf.reduce_mean(losses)))
    right = tf.equal(tf.argmax(logits(images[:held_out]), 1), labels[:held_out])
    if hvd.rank() == 0:
        print(
            f"epoch {epoch}  loss {loss:.3f}  test accuracy "
            f"{tf.reduce_mean(tf.cast(right, tf.float32)):.3f}"
        )

sums = hvd.allgather_object([float(tf.reduce_sum(variable)) for variable in variables])
if hvd.rank() == 0:
    assert all(each == sums[0] for each in sums)
    print(f"{hvd.size()} ranks, weights equal on all of them")
