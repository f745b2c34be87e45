"""Elastic jobs on real Ray: an actor is killed, a node comes, a node goes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_cluster import two_nodes
from waiting import wait_until

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install ".[ray]"')
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with two_nodes(tmp_path_factory.mktemp("ray")) as cluster:
        yield cluster


def training(at_batch: Callable[[int], None], done: Callable[[int, int], bool]) -> Any:
    """A function that counts batches. `at_batch` is called in each, before the commit; `done` gets
    batch and size."""

    def run() -> tuple[int, int, int, int]:
        import numpy as np

        import hvdlite as hvd
        from hvdlite.ray import ray_logger

        hvd.init()
        state = hvd.elastic.ObjectState(batch=0, sum=0.0)

        @hvd.elastic.run
        def train(state: Any) -> None:
            ray_logger.log({"rank": hvd.rank(), "size": hvd.size()})
            while not hvd.allreduce(np.array([float(done(state.batch, hvd.size()))]), op=hvd.Min)[
                0
            ]:
                state.sum += float(hvd.allreduce(np.ones(1))[0])
                at_batch(state.batch)
                state.batch += 1
                state.commit()

        train(state)
        assert state.sum == state.batch  # no batch was lost, and none was counted twice
        return hvd.rank(), hvd.size(), state.batch, hvd.elastic.generation()

    return run


@pytest.mark.watchdog(90)
def test_a_killed_actor_is_replaced_and_training_goes_on(cluster: Any, tmp_path: Path) -> None:
    from hvdlite.ray import RayExecutor

    died = tmp_path / "died"

    def at_batch(batch: int) -> None:
        import hvdlite as hvd

        if batch == 5 and hvd.rank() == 1 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    executor = RayExecutor(
        RayExecutor.create_settings(), min_workers=1, max_workers=2, cpus_per_worker=2
    )
    executor.start(extra_env_vars={"COLOUR": "green"})
    heard: list[Any] = []
    results = executor.run(
        training(at_batch, lambda batch, size: died.exists() and size == 2 and batch > 10),
        callbacks=[heard.extend],
    )
    executor.shutdown()
    assert died.exists()
    assert [(rank, size) for rank, size, *_ in results] == [(0, 2), (1, 2)]
    assert len({batch for _, _, batch, _ in results}) == 1
    assert all(generation >= 3 for *_, generation in results)
    # The generation of the survivor alone was one of them.
    assert {"rank": 0, "size": 1} in heard and {"rank": 1, "size": 2} in heard
    for refused in (lambda: executor.run_remote(len), lambda: executor.execute_single(len)):
        with pytest.raises(NotImplementedError):
            refused()


@pytest.mark.watchdog(90)
def test_a_node_that_comes_gets_ranks_and_one_that_goes_takes_its_own(
    cluster: Any, tmp_path: Path
) -> None:
    from hvdlite.ray import ElasticRayExecutor

    started, grown = tmp_path / "started", tmp_path / "grown"

    def at_batch(batch: int) -> None:
        import hvdlite as hvd

        started.touch()
        if hvd.size() == 3:
            grown.touch()

    executor = ElasticRayExecutor(
        ElasticRayExecutor.create_settings(min_num_proc=2), cpus_per_slot=2
    )
    executor.start()
    found: list[Any] = []
    function = training(at_batch, lambda batch, size: grown.exists() and size == 2)
    runs = threading.Thread(target=lambda: found.append(executor.run(function)), daemon=True)
    runs.start()
    wait_until(started.exists, 30)
    node = cluster.add("green")
    try:
        wait_until(grown.exists, 30)
    finally:
        cluster.remove(node)
    wait_until(lambda: not runs.is_alive(), 30)
    [results] = found
    assert [(rank, size) for rank, size, *_ in results] == [(0, 2), (1, 2)]
    assert all(generation >= 3 for *_, generation in results)


@pytest.mark.watchdog(120)
def test_a_fault_of_the_program_ends_the_job_with_its_own_error(cluster: Any) -> None:
    from hvdlite.ray import ElasticRayExecutor

    def at_batch(batch: int) -> None:
        if batch == 3:
            raise KeyError("of the program")

    executor = ElasticRayExecutor(
        ElasticRayExecutor.create_settings(min_num_proc=1, max_num_proc=1), cpus_per_slot=2
    )
    with pytest.raises(RuntimeError, match="KeyError: 'of the program'") as caught:
        executor.run(training(at_batch, lambda batch, size: False))
    assert isinstance(caught.value.__cause__, KeyError)
    assert "in at_batch" in str(caught.value)
