"""hvdlite as a backend of Ray Train."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from installed import needs_installed
from launched import Job
from machine import within
from ray_cluster import example, two_nodes

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install ".[ray]"')
pytest.importorskip("pyarrow", reason='Ray Train is not installed: pip install ".[ray]"')
pytestmark = pytest.mark.full

# A worker that has lost another one hears of it within this. Ray itself would tell it 10 s later.
PROMPT = 1.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with two_nodes(tmp_path_factory.mktemp("ray")) as cluster:
        yield cluster


@pytest.mark.watchdog(120)
def test_the_example_trains_and_keeps_checkpoints(job: Job) -> None:
    said = example(job, "ray_train.py")
    assert re.search(r"2 ranks, epoch 3, accuracy 0\.9", said), said
    assert "the checkpoint has the weights of epoch 3" in said


@pytest.mark.watchdog(120)
def test_a_worker_that_fails_is_the_cause_and_the_others_hear_of_it_at_once(
    cluster: Any, tmp_path: Path
) -> None:
    import ray.train
    from ray.train import RunConfig, ScalingConfig

    from hvdlite.exceptions import PeerLostError
    from hvdlite.ray.train import DataParallelTrainer, HvdliteConfig, cause

    def train(config: dict[str, str]) -> None:
        import numpy as np

        import hvdlite as hvd

        assert hvd.allreduce(np.ones(1), op=hvd.Sum)[0] == hvd.size() == 2
        assert ray.train.get_context().get_world_rank() == hvd.rank()
        assert hvd.local_size() == 1  # one rank per host, though Ray takes both for one
        began = time.monotonic()
        if hvd.rank() == 1:
            raise KeyError("of rank 1")
        try:
            hvd.allreduce(np.ones(1))
        except PeerLostError:
            Path(config["told"]).write_text(str(time.monotonic() - began))
            raise

    told = tmp_path / "told"
    trainer = DataParallelTrainer(
        train,
        train_loop_config={"told": str(told)},
        backend_config=HvdliteConfig(),
        scaling_config=ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD"),
        run_config=RunConfig(name="failing", storage_path=str(tmp_path)),
    )
    with pytest.raises(ray.train.v2.api.exceptions.TrainingFailedError) as caught:
        trainer.fit()
    found = cause(caught.value)
    assert isinstance(found, KeyError) or "of rank 1" in str(found), repr(found)
    assert float(told.read_text()) < within(PROMPT)


OF_RAY = """
import sys
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.horovod import HorovodTrainer

def train():
    import horovod.torch as hvd
    import torch
    hvd.init()
    total = hvd.allreduce(torch.ones(1) * (hvd.rank() + 1), op=hvd.Sum)
    ray.train.report({"said": f"sum {total.item():g} of {hvd.size()}, {hvd.local_size()} here"})

if __name__ == "__main__":
    ray.init("local", num_cpus=3, include_dashboard=False, object_store_memory=80 << 20)
    run = RunConfig(storage_path=sys.argv[1])
    trainer = HorovodTrainer(train, scaling_config=ScalingConfig(num_workers=2), run_config=run)
    print(trainer.fit().metrics["said"])
"""


@pytest.mark.watchdog(180)
def test_rays_own_trainer_for_horovod_trains(job: Job, tmp_path: Path) -> None:
    """Ray ships it for its first version of Ray Train."""
    needs_installed("torch")
    words = (sys.executable, "-m", "hvdlite.compat", job.script(OF_RAY), str(tmp_path))
    done = job.command(*words, RAY_TRAIN_V2_ENABLED="0")
    if "timed out during startup" in done.stderr:
        done = job.command(*words, RAY_TRAIN_V2_ENABLED="0")
    assert done.returncode == 0, done.stderr
    assert "sum 3 of 2, 2 here" in done.stdout
