"""Measures the speed of training: a convolutional network of Keras on random images, in a custom
loop, with and without compression.

hvdliterun -np 2 python examples/tensorflow2_synthetic_benchmark.py
"""

from __future__ import annotations

import argparse
import statistics
import timeit

import keras
import tensorflow as tf

import hvdlite.tensorflow as hvd

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument(
    "--model", default="small", help="small, or the name of one of keras.applications, as ResNet50"
)
parser.add_argument("--batch-size", type=int, default=16, help="per rank")
parser.add_argument(
    "--image", type=int, default=32, help="its height and width; keras.applications want 224"
)
parser.add_argument("--num-warmup-batches", type=int, default=2)
parser.add_argument("--num-batches-per-iter", type=int, default=5)
parser.add_argument("--num-iters", type=int, default=4)
parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel in 16 bits")
parser.add_argument("--eager", action="store_true", help="without tf.function")
arguments = parser.parse_args()

hvd.init()


def small() -> keras.Model:
    layers = [keras.Input((arguments.image, arguments.image, 3))]
    for filters in (32, 64, 128):
        layers += [
            keras.layers.Conv2D(filters, 3, 2, "same"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
        ]
    return keras.Sequential(
        [*layers, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1000)]
    )


def chosen() -> keras.Model:
    if arguments.model == "small":
        return small()
    make = getattr(keras.applications, arguments.model)
    return make(
        weights=None, input_shape=(arguments.image, arguments.image, 3), classifier_activation=None
    )


model = chosen()
optimizer = keras.optimizers.SGD(0.01)
optimizer.build(model.trainable_variables)
compression = hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none
images = tf.random.uniform([arguments.batch_size, arguments.image, arguments.image, 3])
labels = tf.random.uniform([arguments.batch_size], maxval=1000, dtype=tf.int64)


def train_step() -> None:
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    tape = hvd.DistributedGradientTape(tape, compression=compression)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


step = train_step if arguments.eager else tf.function(train_step)


def log(text: str) -> None:
    if hvd.rank() == 0:
        print(text, flush=True)


log(f"Model: {arguments.model}, {model.count_params() / 1e6:.2f} million parameters")
log(f"Batch size: {arguments.batch_size}, ranks: {hvd.size()}")
hvd.broadcast_variables(model.variables, root_rank=0)
hvd.broadcast_variables(optimizer.variables, root_rank=0)
timeit.timeit(step, number=arguments.num_warmup_batches)

rates = []
for i in range(arguments.num_iters):
    seconds = timeit.timeit(step, number=arguments.num_batches_per_iter)
    rates.append(arguments.batch_size * arguments.num_batches_per_iter / seconds)
    log(f"Iter #{i}: {rates[-1]:.1f} img/sec per rank")

mean, spread = statistics.mean(rates), 1.96 * statistics.pstdev(rates)
log(f"Img/sec per rank: {mean:.1f} +-{spread:.1f}")
total = float(hvd.allreduce(tf.constant(mean), op=hvd.Sum))
log(f"Total img/sec on {hvd.size()} rank(s): {total:.1f}")
