"""A cluster of Ray on this machine: two nodes, which are two hosts for hvdlite.

Every process of it carries a mark in its environment, by which it is found again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from launched import ROOT, Job
from machine import within

_STORE_BYTES = 80 << 20


@contextmanager
def two_nodes(folder: Path) -> Iterator[Any]:
    """The cluster; this process is connected to it. No process of it is left in the end."""
    import ray
    from ray.cluster_utils import Cluster

    job = Job(folder)
    before = dict(os.environ)
    os.environ.update(job.environment(RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0"))
    # Actors import the functions of the tests.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    cluster = Cluster()
    try:
        for name in ("red", "blue"):
            add_node(cluster, name)
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        os.environ.clear()
        os.environ.update(before)
        left = job.wait_until_gone(10)
        for pid in left:
            os.kill(pid, 9)
        assert not left, f"{len(left)} processes of Ray remain"


def add_node(cluster: Any, name: str, cpus: int = 2) -> Any:
    """`name`: what the core takes for its host. Ray gives a node 30 s to start, and no more."""
    options = {
        "num_cpus": cpus,
        "object_store_memory": _STORE_BYTES,
        "env_vars": {"HVDLITE_HOST_ID": name},
    }
    if not cluster.list_all_nodes():
        options["include_dashboard"] = False
    try:
        return cluster.add_node(**options)
    except Exception:
        return cluster.add_node(**options)


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
