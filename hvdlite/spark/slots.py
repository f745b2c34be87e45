"""How many tasks Spark can run at a time. Pure.

A barrier stage needs all of its tasks at once. With too few slots, Spark tries again for ten
minutes before it says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# A cluster that has not said how large it becomes gets this long for its next executor.
PATIENCE_SECONDS = 15.0

_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_LOCAL = re.compile(r"local\[(\d+)(?:,\s*\d+)?\]")

Conf = Callable[[str], str | None]  # the value of a key, if it is set


def most(conf: Conf) -> int | None:
    """Returns how many slots there are when all executors have come; None if the configuration does
    not say."""
    master, cpus = conf("spark.master") or "", _number(conf("spark.task.cpus")) or 1
    if master == "local":
        return 1
    if local := _LOCAL.fullmatch(master):
        return int(local[1]) // cpus
    if cluster := _CLUSTER.fullmatch(master):
        return int(cluster[1]) * (int(cluster[2]) // cpus)
    grows = (conf("spark.dynamicAllocation.enabled") or "").lower() == "true"
    limit = "spark.dynamicAllocation.maxExecutors" if grows else "spark.executor.instances"
    executors, cores = _number(conf(limit)), _number(conf("spark.executor.cores"))
    if executors and cores:
        return executors * (cores // cpus)
    return None


def is_enough(wanted: int, there: int | None, at_most: int | None, unchanged: float) -> bool:
    """Whether the stage may begin; False: more executors may come. `there`: slots at present; None
    if Spark does not tell. `unchanged`: for how many seconds that has been so. Raises ValueError if
    there are too few, and will be."""
    if there is not None and there >= wanted:
        return True
    if at_most is not None and at_most < wanted:
        raise ValueError(too_few(wanted, at_most))
    if there is None:
        return True
    if unchanged > PATIENCE_SECONDS:
        raise ValueError(too_few(wanted, there))
    return False


def too_few(wanted: int, there: int, caller: str = "run") -> str:
    return (
        f"hvdlite.spark.{caller}(num_proc={wanted}) needs {wanted} slots at the same time, and "
        f"this Spark application has {there}: start fewer processes, or give the application more "
        "executors or cores (spark.executor.instances, spark.executor.cores; spark.task.cpus is "
        "what each process takes)."
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
