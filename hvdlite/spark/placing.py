"""Which rank each task is. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from hvdlite.launch import plan
from hvdlite.launch.hosts import Host

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


def surroundings(worker: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
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
