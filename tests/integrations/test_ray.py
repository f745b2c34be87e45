"""hvdlite.ray on real Ray: one small job at each commit, and what goes wrong in the tier `all`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launched import ROOT, Job
from machine import within
from ray_cluster import example, seconds_of, two_nodes
from waiting import wait_until

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install ".[ray]"')

# A rank that has to end because of another one has this long.
PROMPT = 5.0


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_the_example_trains_on_two_ranks(job: Job) -> None:
    said = example(job, "ray_executor.py")
    assert re.search(r"epoch 40  loss 0\.000", said), said
    weights = "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]"
    for rank in (0, 1):
        assert f"rank {rank} of 2, local rank {rank}: weights {weights}" in said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"max_workers": 2}, "max_workers needs min_workers"),
        ({"min_workers": 0, "max_workers": 2}, "max_workers needs min_workers"),
        ({"min_workers": 1, "num_workers": 2}, "exclude one another"),
        ({"num_workers": 2, "gpus_per_worker": 1}, "need use_gpu=True"),
        ({}, "either num_workers"),
    ],
)
def test_arguments_that_contradict_are_refused(arguments: dict[str, int], why: str) -> None:
    from hvdlite.ray import ElasticRayExecutor, RayExecutor

    with pytest.raises(ValueError, match=why):
        RayExecutor(RayExecutor.create_settings(), **arguments)
    with pytest.raises(ValueError, match="need use_gpu=True"):
        ElasticRayExecutor(ElasticRayExecutor.create_settings(), gpus_per_slot=1)
    with pytest.warns(DeprecationWarning):
        assert ElasticRayExecutor.create_settings(min_np=2, max_np=3).max_num_proc == 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with two_nodes(tmp_path_factory.mktemp("ray")) as cluster:
        yield cluster


@pytest.fixture
def executor(cluster: Any) -> Iterator[Any]:
    """Two ranks on two nodes."""
    from hvdlite.ray import RayExecutor

    executor = RayExecutor(RayExecutor.create_settings(), num_hosts=2)
    executor.start()
    yield executor
    executor.shutdown()


def place() -> tuple[int, ...]:
    import hvdlite as hvd

    hvd.init()
    return (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(),
            hvd.cross_size(), os.getpid())  # fmt: skip


def total() -> float:
    import numpy as np

    import hvdlite as hvd

    hvd.init()
    return float(hvd.allreduce(np.full(3, hvd.rank() + 1.0), op=hvd.Sum)[0])


def on_rank_1(action: Any) -> Any:
    """A function that does this on rank 1, when the ranks have met, while the others wait."""

    def run() -> float:
        import hvdlite as hvd

        hvd.init()
        hvd.barrier()
        if hvd.rank() == 1:
            action()
        return total()

    return run


def fail() -> None:
    raise KeyError("of rank 1")


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_ranks_of_one_host_are_neighbours_and_know_their_numbers(cluster: Any) -> None:
    from hvdlite.ray import RayExecutor

    executor = RayExecutor(RayExecutor.create_settings(), num_hosts=2, num_workers_per_host=2)
    executor.start(extra_env_vars={"COLOUR": 3})
    try:
        numbers = [found[:-1] for found in executor.run(place)]
        assert numbers == [(0, 4, 0, 2, 0, 2), (1, 4, 1, 2, 0, 2), (2, 4, 0, 2, 1, 2),
                           (3, 4, 1, 2, 1, 2)]  # fmt: skip
        assert executor.run(total) == [10.0] * 4
        told = executor.run(lambda: {**os.environ})
        assert [each["HOROVOD_RANK"] for each in told] == ["0", "1", "2", "3"]
        assert {each["COLOUR"] for each in told} == {"3"}
        assert {each["HVDLITE_HOST_ID"] for each in told} == {"red", "blue"}
    finally:
        executor.shutdown()


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_an_exception_of_a_rank_is_raised_here_and_the_ranks_go_on(executor: Any) -> None:
    began = time.monotonic()
    with pytest.raises(KeyError, match="of rank 1") as caught:
        executor.run(on_rank_1(fail))
    assert seconds_of(began) < PROMPT
    assert "test_ray.py" in str(caught.value) and "in fail" in str(caught.value)
    assert "repr=rank 1" in str(caught.value)
    assert executor.run(total) == [3.0, 3.0]  # in a new job of the same actors


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_ranks_that_wait_in_init_hear_of_a_failure(executor: Any) -> None:
    def run() -> float:
        if os.environ["HOROVOD_RANK"] == "1":
            fail()
        return total()

    began = time.monotonic()
    with pytest.raises(KeyError, match="of rank 1"):
        executor.run(run)
    assert seconds_of(began) < PROMPT
    assert executor.run(total) == [3.0, 3.0]


@pytest.mark.full
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("how", ["exit", "kill"])
def test_an_actor_that_dies_is_named_and_nothing_is_left(executor: Any, how: str) -> None:
    from ray.exceptions import RayActorError

    def die() -> None:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(7)

    pids = [found[-1] for found in executor.run(place)]
    began = time.monotonic()
    with pytest.raises(RayActorError, match="rank 1 on .* died"):
        executor.run(on_rank_1(die))
    assert seconds_of(began) < PROMPT
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    with pytest.raises(RuntimeError, match=r"rank 1 was lost .* call start\(\) again"):
        executor.run(total)
    executor.start()
    assert executor.run(total) == [3.0, 3.0]


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_a_rank_that_hears_nothing_is_ended(executor: Any) -> None:
    """Rank 0 calls no collective, so the core cannot tell it."""

    def run() -> None:
        if os.environ["HOROVOD_RANK"] == "1":
            fail()
        signal.pause()

    [pid, _] = [found[-1] for found in executor.run(place)]
    began = time.monotonic()
    with pytest.raises(KeyError):
        executor.run(run)
    assert seconds_of(began) < PROMPT
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(RuntimeError, match="rank 0 was lost"):
        executor.run(total)


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_an_interrupt_ends_the_ranks(executor: Any) -> None:
    from hvdlite.ray import ray_logger

    def run() -> None:
        ray_logger.log({"pid": os.getpid()})
        signal.pause()

    def interrupt(values: list[Any]) -> None:
        pids.extend(value["pid"] for value in values)
        raise KeyboardInterrupt

    pids: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        executor.run(run, callbacks=[interrupt])
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    assert pids
    with pytest.raises(RuntimeError, match="the run before was interrupted"):
        executor.run(total)


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_what_cannot_be_placed_is_named_and_given_up(cluster: Any) -> None:
    from hvdlite.ray import RayExecutor

    settings = RayExecutor.create_settings(placement_group_timeout_s=2)
    began = time.monotonic()
    with pytest.raises(
        TimeoutError, match=r"3 x \{CPU: 1\}, each on a node of its own: \{CPU: 4\}"
    ):
        RayExecutor(settings, num_hosts=3).start()
    with pytest.raises(TimeoutError, match=r"1 x \{CPU: 64\}"):
        RayExecutor(settings, num_workers=1, cpus_per_worker=64).start()
    assert 4 <= time.monotonic() - began < within(10)
    states = {each["state"] for each in ray.util.placement_group_table().values()}
    assert states <= {"REMOVED"}


class Counter:
    """An executable."""

    def __init__(self, first: int, step: int = 1) -> None:
        self.count, self.step = first, step

    def add(self) -> int:
        self.count += self.step
        return self.count


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_executables_single_ranks_references_and_callbacks(cluster: Any) -> None:
    from hvdlite.ray import RayExecutor, ray_logger

    executor = RayExecutor(RayExecutor.create_settings(), num_workers=3)
    executor.start(Counter, [5], {"step": 2})
    try:
        with pytest.raises(RuntimeError, match="the ranks run already"):
            executor.start()
        assert executor.execute(lambda counter: counter.add()) == [7, 7, 7]
        assert executor.execute_single(lambda counter: counter.add()) == 9
        assert executor.execute(lambda counter: counter.add()) == [11, 9, 9]
        refs = executor.run_remote(lambda one, two: one + two, [1], {"two": 2})
        assert ray.get(refs) == [3, 3, 3]
        heard: list[Any] = []

        def log() -> None:
            for number in range(3):
                ray_logger.log({"rank": int(os.environ["HOROVOD_RANK"]), "number": number})

        executor.run(log, callbacks=[heard.extend])
        for rank in range(3):
            assert [each["number"] for each in heard if each["rank"] == rank] == [0, 1, 2]
        ray.wait(executor.run_remote(on_rank_1(fail)), num_returns=3)
        assert executor.run(total) == [6.0] * 3
    finally:
        executor.shutdown()
    assert executor.adapter.workers == []
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        executor.run(total)


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_ranks_run_in_the_placement_group_of_their_caller(cluster: Any) -> None:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    from hvdlite.ray.strategy import create_placement_group

    group, _ = create_placement_group({"CPU": 1}, 3, 30, "PACK")

    @ray.remote(num_cpus=1)
    def inside() -> tuple[list[float], int]:
        from hvdlite.ray import RayExecutor

        executor = RayExecutor(RayExecutor.create_settings(), num_workers=2)
        executor.start()
        sums = executor.run(total)
        groups = len(ray.util.placement_group_table())
        executor.shutdown()
        return sums, groups

    before = len(ray.util.placement_group_table())
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    assert ray.get(inside.options(scheduling_strategy=strategy).remote()) == ([3.0, 3.0], before)
    ray.util.remove_placement_group(group)


PROGRAM = """
import sys, ray
from horovod.ray import RayExecutor, BaseHorovodWorker, ElasticRayExecutor
from horovod.ray.runner import MiniSettings, Coordinator, StaticAdapter
from horovod.ray import ray_logger
import horovod.ray.strategy, hvdlite.ray
assert RayExecutor is hvdlite.ray.RayExecutor
environment = {"env_vars": {"PYTHONPATH": sys.argv[2]}}
ray.init(address=sys.argv[1], log_to_driver=False, runtime_env=environment)
def train():
    import horovod.torch as hvd, torch
    hvd.init()
    return hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum).item()
executor = RayExecutor(RayExecutor.create_settings(timeout_s=30), num_workers=2)
executor.start()
print(executor.run(train))
executor.shutdown()
"""


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_a_program_for_horovod_runs_unchanged(cluster: Any, tmp_path: Path) -> None:
    from hvdlite import compat

    path = compat.environment({"PYTHONPATH": str(ROOT)})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, cluster.address, path["PYTHONPATH"]],
        env=os.environ | path, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[1.0, 1.0]"
