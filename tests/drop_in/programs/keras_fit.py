"""A program as people have written them for Horovod with tf.keras. Nothing in here knows of
hvdlite."""

import os
import sys

import horovod.keras
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from horovod.tensorflow.keras.callbacks import MetricAverageCallback

hvd.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.utils.set_random_seed(hvd.rank() + 1)
rng = np.random.default_rng(hvd.rank())
x = rng.random((64, 3), np.float32)
y = x.sum(axis=1, keepdims=True)
rate = 0.05 * hvd.size()
model = tf.keras.Sequential(
    [tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)]
)
optimizer = hvd.DistributedOptimizer(
    tf.keras.optimizers.SGD(rate), backward_passes_per_step=1, average_aggregated_gradients=True
)
model.compile(loss="mse", optimizer=optimizer)
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=rate, warmup_epochs=1, verbose=0),
]
checkpoint = os.path.join(sys.argv[1], "model.keras")
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.ModelCheckpoint(checkpoint))
history = model.fit(
    x, y, batch_size=16, epochs=2, callbacks=callbacks, verbose=1 if hvd.rank() == 0 else 0
)

losses = np.asarray(hvd.allgather(np.array([history.history["loss"]])))
assert (losses == losses[0]).all(), "MetricAverageCallback makes them equal"
assert (
    float(horovod.keras.allreduce(float(hvd.rank()), name="mean"))
    == sum(range(hvd.size())) / hvd.size()
)
assert horovod.keras.callbacks.MetricAverageCallback is MetricAverageCallback
loaded = hvd.load_model(checkpoint) if hvd.rank() == 0 else model
assert type(loaded.optimizer).__name__ == "SGD"
print(f"rank {hvd.rank()} of {hvd.size()} is done")
