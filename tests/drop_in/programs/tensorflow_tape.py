"""A program as people have written them for Horovod with TensorFlow 2 and a tape. Nothing in here
knows of hvdlite."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.functions import broadcast_object, broadcast_variables

hvd.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.random.set_seed(hvd.rank())
samples = np.random.default_rng(0).random((64, 3), np.float32)
dataset = tf.data.Dataset.from_tensor_slices((samples, samples.sum(axis=1, keepdims=True)))
dataset = dataset.shard(hvd.size(), hvd.rank()).repeat().batch(8)
weights = tf.Variable(tf.random.normal((3, 1)))
bias = tf.Variable(tf.zeros((1,)))
variables = [weights, bias]
rate = 0.05 * hvd.size()


@tf.function
def training_step(x, y, first_batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weights + bias - y) ** 2)
    tape = hvd.DistributedGradientTape(tape, compression=Compression.fp16)
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):  # noqa: B905
        variable.assign_sub(rate * gradient)
    if first_batch:
        broadcast_variables(variables, root_rank=0)
    return loss


for step, (x, y) in enumerate(dataset.take(20 // hvd.size())):
    loss = training_step(x, y, step == 0)
    if step % 5 == 0 and hvd.local_rank() == 0:
        print(f"step {step} loss {float(loss):.4f}")

everyones = hvd.allgather(tf.reshape(weights, (1, 3))).numpy()
assert everyones.shape == (hvd.size(), 3) and (everyones == everyones[0]).all()
assert broadcast_object({"epoch": hvd.rank() + 7}, root_rank=0) == {"epoch": 7}
assert float(hvd.allreduce(tf.constant(float(hvd.rank())), op=hvd.Sum)) == sum(range(hvd.size()))
assert hvd.mpi_ops.rank_op().numpy() == hvd.rank()
print(f"rank {hvd.rank()} of {hvd.size()} is done")
