"""tf.data's service on the ranks of a job of their own, by Horovod's names."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from installed import needs_installed
from launched import Job

from hvdlite import compat

needs_installed("tensorflow")

TRAIN = """
import sys
import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow.data.compute_service import TfDataServiceConfig, tf_data_service

hvd.init()
config = TfDataServiceConfig.read("service.json", wait_for_file_creation=True)
assert "key" not in repr(config) and TfDataServiceConfig.from_dict(config.to_dict()) == config
dataset = tf.data.Dataset.range(40).map(lambda n: n * 2)
with tf_data_service(config, hvd.rank()) as target:
    by_hand = dataset.apply(
        tf.data.experimental.service.distribute("distributed_epoch", target)
    )
    own = sorted(by_hand.as_numpy_iterator())
    assert own == list(range(0, 80, 2)), own
    shared = dataset.send_to_data_service(config, hvd.rank(), hvd.size(), reuse_dataset=True) \
        if config.dispatchers == 1 else None
    if shared is not None:
        mine = tf.constant(list(shared.as_numpy_iterator()), tf.int64)
        everything = hvd.allgather(tf.reshape(mine, [-1]))
        assert sorted(everything.numpy().tolist()) == own, everything
    hvd.allreduce(tf.ones(1))
    print("served", hvd.rank(), config.dispatchers, config.dispatcher_side, flush=True)
"""


def serves(job: Job, *options: str, ranks: int) -> str:
    """A training job of two ranks, with a service of as many as are wanted."""
    alias = compat.environment({"PYTHONPATH": str(Path(compat.__file__).parents[2])})
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **alias}
    module = "horovod.tensorflow.data.compute_worker"
    compute = job.start(
        "-np", str(ranks), "python", "-m", module, "service.json", "--open-ports", *options,
        **environment,
    )  # fmt: skip
    program = job.script(TRAIN, "train.py")
    done = job.end_well("-np", "2", "python", program, **environment)
    out, errors = compute.communicate()
    assert compute.returncode == 0, out.decode() + errors.decode()
    assert not (job.directory / "service.json").exists()
    assert errors.count(b"asks for no password: every program that reaches its ports can") == 1
    return done.stdout.decode()


@pytest.mark.costly
@pytest.mark.watchdog(150)
def test_a_job_prepares_the_data_of_another_one(job: Job) -> None:
    said = serves(job, ranks=2)
    assert "served 0 1 compute" in said and "served 1 1 compute" in said


@pytest.mark.full
@pytest.mark.watchdog(200)
@pytest.mark.parametrize("side", ["training", "compute"])
def test_each_rank_may_have_a_dispatcher_on_either_side(job: Job, side: str) -> None:
    said = serves(job, "--dispatchers", "2", "--dispatcher-side", side, ranks=2)
    assert f"served 0 2 {side}" in said and f"served 1 2 {side}" in said


# Rank 1's host alone has another user: no rank starts a server.
OPEN_TO_OTHERS = """
import hvdlite as hvd
from hvdlite.data import compute_worker, strangers
hvd.init()
strangers.others_here = lambda: ["alice"] * hvd.rank()
strangers.addresses.all_interfaces = lambda: []
try:
    compute_worker.main(1, "compute", "service.json")
except RuntimeError as error:
    print(error, flush=True)
"""


@pytest.mark.costly
@pytest.mark.watchdog(100)
def test_a_service_that_strangers_could_use_is_not_started(job: Job) -> None:
    program = job.script(OPEN_TO_OTHERS)
    done = job.end_well("-np", "2", "python", program, TF_CPP_MIN_LOG_LEVEL="3")
    assert done.stdout.count(b" has other users (alice): every program that reaches its ports") == 2
    assert not (job.directory / "service.json").exists()


REFUSED = """
import hvdlite.data.compute_worker as worker
worker.main(2, "compute", "service.json", 10, open_ports=True)
"""


@pytest.mark.full
@pytest.mark.watchdog(200)
def test_ranks_that_do_not_divide_and_a_service_that_is_gone_are_named(job: Job) -> None:
    process = job.start("-np", "3", "python", job.script(REFUSED), TF_CPP_MIN_LOG_LEVEL="3")
    _, errors = process.communicate()
    assert process.returncode and b"3 ranks are no multiple of 2 dispatchers" in errors
    program = job.script(
        "from hvdlite.data.compute_service import TfDataServiceConfig\n"
        "config = TfDataServiceConfig(1, 1, 'compute', ['127.0.0.1:9'], b'k' * 32, 1)\n"
        "config.write('other.json')\n"
        "assert TfDataServiceConfig.read('other.json') == config\n"
        "try:\n"
        "    config.compute_client()\n"
        "except ConnectionError as error:\n"
        "    print(error)\n",
        "gone.py",
    )
    done = job.command("python", program, TF_CPP_MIN_LOG_LEVEL="3")
    assert "the tf.data service does not answer" in done.stdout, done.stderr
    other = job.directory / "other.json"
    assert stat.S_IMODE(other.stat().st_mode) == 0o600
    assert json.loads(other.read_text())["key"] == (b"k" * 32).hex()


BESIDE = """
import threading
import numpy as np
import hvdlite.tensorflow as hvd
from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.data.compute_service import TfDataServiceConfig
from hvdlite.data.compute_worker import main

hvd.init()
worker = threading.Thread(target=main, args=(1, "compute", "service.json", 60, True))
worker.start()
for step in range(200):
    assert broadcast_object(step) == step  # unnamed: its name is a number of this rank
config = TfDataServiceConfig.read("service.json", wait_for_file_creation=True)
hvd.allgather_object("has read", name="read")
if hvd.rank() == 0:
    client = config.compute_client()
    client.wait_for_dispatcher_worker_registration(0, 60, workers=2)
    client.shutdown()
worker.join()
print("the sum is", int(hvd.allreduce(np.ones(1), op=hvd.Sum)[0]), flush=True)
"""


@pytest.mark.full
@pytest.mark.watchdog(100)
def test_a_rank_may_be_a_worker_in_a_thread_beside_its_own_work(job: Job) -> None:
    """main() neither ends the caller's job nor takes the names of its operations."""
    done = job.end_well("-np", "2", "python", job.script(BESIDE), TF_CPP_MIN_LOG_LEVEL="3")
    assert done.stdout.count(b"the sum is 2") == 2
