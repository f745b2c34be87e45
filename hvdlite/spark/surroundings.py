"""What a rank finds in its environment, beside a task of Spark."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from typing import Any

from hvdlite.spark import placing
from hvdlite.spark.task import GPUS


def gpus(context: Any) -> list[str]:
    """Returns the indices of the GPUs that Spark has given to the task."""
    resources = context.resources()
    return list(resources["gpu"].addresses) if "gpu" in resources else []


def of_a_rank(chosen: Mapping[str, str], gpus: Sequence[str]) -> dict[str, str]:
    """`chosen`: what the driver has chosen."""
    found = placing.surroundings(os.environ, chosen)
    found[GPUS] = ",".join(gpus)
    # Spark adds the files of --py-files and addPyFile() to the worker's path.
    usual = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found["PYTHONPATH"] = os.pathsep.join(placing.own_path(sys.path, usual))
    return found
