"""Which rank each task is, and the environment of its rank."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hvdlite.launch import plan
from hvdlite.launch.hosts import Host
from hvdlite.spark.task import GPUS

# Spark's own secrets, in the environment of its Python workers.
_OF_SPARK = re.compile(r"PYTHON_WORKER_FACTORY_SECRET|_PYSPARK_DRIVER_\w*|SPARK_\w*SECRET\w*")


def place(hosts: Sequence[str]) -> list[plan.Slot]:
    """Returns the slot of each partition. `hosts`: by partition, the identity of its host.

    Hosts are in the order of their first partitions, and so partition 0 is rank 0. The ranks of a
    host follow one another, in the order of their partitions.
    """
    partitions: dict[str, list[int]] = {}
    for partition, host in enumerate(hosts):
        partitions.setdefault(host, []).append(partition)
    slots = plan.assign([Host(host, len(those)) for host, those in partitions.items()])
    order = [partition for those in partitions.values() for partition in those]
    by_partition = dict(zip(order, slots, strict=True))
    return [by_partition[partition] for partition in range(len(hosts))]


def base_environment(worker: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a rank: that of Spark's Python worker, without Spark's secrets,
    and what the driver has chosen."""
    kept = {name: text for name, text in worker.items() if not _OF_SPARK.fullmatch(name)}
    return plan.without_mpi(plan.job_environment(kept, chosen))


def own_path(path: Iterable[str], usual: Iterable[str]) -> list[str]:
    """Returns the entries of a module search path that another interpreter would not have by
    itself. `usual`: folders of the standard library and of installed packages."""
    tops = tuple(usual)
    return [
        entry
        for entry in path
        if entry
        and not any(entry == top or entry.startswith(top + os.sep) for top in tops)
        and not re.fullmatch(r"python\d+\.zip", os.path.basename(entry))
    ]


def gpus(context: Any) -> list[str]:
    """Returns the indices of the GPUs that Spark has given to the task."""
    resources = context.resources()
    return list(resources["gpu"].addresses) if "gpu" in resources else []


def environment(chosen: Mapping[str, str], gpus: Sequence[str]) -> dict[str, str]:
    """Returns the environment of this task's rank. `chosen`: what the driver has chosen."""
    found = base_environment(os.environ, chosen)
    found[GPUS] = ",".join(gpus)
    # Spark adds the files of --py-files and addPyFile() to the worker's path.
    usual = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found["PYTHONPATH"] = os.pathsep.join(own_path(sys.path, usual))
    return found
