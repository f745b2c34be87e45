"""Reductions whose caller waits at once do not wake the background thread where no processor is
spare (HVDLITE_OVERLAP=off): torch's optimizers are in test_torch_waking.py."""

from __future__ import annotations

import pytest
from bare_ranks import Ranks
from installed import needs_installed

_DDP = """
import torch, torch.distributed as dist, hvdlite.torch as torch_hvd
torch.set_num_threads(1)
dist.init_process_group("gloo", f"file://{os.getcwd()}/meet", rank=RANK, world_size=SIZE)
layers = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(10)))
net = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.001)
net.register_comm_hook(None, torch_hvd.ddp_comm_hook())
def reduce():
    net(torch.ones(1, 8)).sum().backward()
"""
_TENSORFLOW = """
import tensorflow as tf, hvdlite.tensorflow as tf_hvd
weights = [tf.Variable(tf.ones((4, 4))) for _ in range(5)]
def reduce():
    with tf_hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.add_n([tf.reduce_sum(weight * weight) for weight in weights])
    assert (tape.gradient(loss, weights)[4].numpy() == 2).all()
"""
_KERAS = """
import keras, hvdlite.keras as keras_hvd
optimizer = keras_hvd.DistributedOptimizer(keras.optimizers.SGD(0.01))
weights = [keras.Variable(np.ones((4, 4))) for _ in range(5)]
def reduce():
    optimizer.apply([keras.ops.ones((4, 4)) for _ in weights], weights)
"""
_COUNTED = """
for _ in range(2):  # what is exchanged once only
    reduce()
before = hvd.metrics()["background_wakes"]
for _ in range(20):
    reduce()
tell(wakes=hvd.metrics()["background_wakes"] - before)
"""


@pytest.mark.costly
@pytest.mark.watchdog(180)
@pytest.mark.parametrize(
    ("module", "program"),
    [("torch", _DDP), ("tensorflow", _TENSORFLOW), ("keras", _KERAS)],
    ids=["DDP's hook", "TensorFlow, eagerly", "Keras on torch"],
)
def test_no_reduction_wakes_a_thread_where_no_processor_is_spare(
    two_ranks: Ranks, module: str, program: str
) -> None:
    needs_installed(module, "torch" if module == "keras" else module)
    two_ranks.all_end_well(
        f"hvd.init()\n{program}{_COUNTED}",
        seconds=100,
        HVDLITE_OVERLAP="off",
        KERAS_BACKEND="torch",
        TF_CPP_MIN_LOG_LEVEL="2",
    )
    assert [two_ranks.last(rank)["wakes"] for rank in range(2)] == [0, 0]
