"""A cluster of Ray on this machine: two nodes, which are two hosts for hvdlite.

Every process of it carries a mark in its environment, by which it is found again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from launched import ROOT, Job
from machine import within

_STORE_BYTES = 80 << 20


class Nodes:
    """`job`: finds the processes of the cluster."""

    def __init__(self, job: Job) -> None:
        from ray.cluster_utils import Cluster

        self._job, self._cluster = job, Cluster()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, name: str) -> Any:
        """A node with two CPUs. `name`: what the core takes for its host.

        Ray gives a node 30 s to start, and no more: a second one is tried.
        """
        options: dict[str, Any] = {
            "num_cpus": 2,
            "object_store_memory": _STORE_BYTES,
            "env_vars": {"HVDLITE_HOST_ID": name},
        }
        if not self._cluster.list_all_nodes():
            options["include_dashboard"] = False
        before = set(self._job.pids())
        try:
            return self._cluster.add_node(**options)
        except Exception:
            _kill(set(self._job.pids()) - before)
            return self._cluster.add_node(**options)

    def remove(self, node: Any) -> None:
        self._cluster.remove_node(node)

    def close(self) -> None:
        self._cluster.shutdown()


@contextmanager
def two_nodes(folder: Path) -> Iterator[Nodes]:
    """This process is connected to the cluster. No process of it is left in the end."""
    import ray

    job = Job(folder)
    before = dict(os.environ)
    os.environ.update(job.environment(RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0"))
    # Actors import the functions of the tests.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    nodes = Nodes(job)
    try:
        for name in ("red", "blue"):
            nodes.add(name)
        ray.init(address=nodes.address, log_to_driver=False)
        yield nodes
    finally:
        ray.shutdown()
        nodes.close()
        os.environ.clear()
        os.environ.update(before)
        left = job.wait_until_gone(10)
        _kill(left)
        assert not left, f"{len(left)} processes of Ray remain"


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def example(job: Job, name: str) -> str:
    """What an example prints. It is run again if Ray has not started in its 30 s."""
    words = (sys.executable, str(ROOT / "examples" / name))
    done = job.command(*words)
    if "timed out during startup" in done.stderr:
        done = job.command(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def seconds_of(began: float) -> float:
    """How long it took, on a machine of its own."""
    return (time.monotonic() - began) / within(1)
