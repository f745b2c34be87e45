"""What a rank's function asks about the task of Spark that it runs in."""

from __future__ import annotations

import os

__all__ = ["get_available_devices"]

GPUS = "HVDLITE_SPARK_GPUS"


def get_available_devices() -> list[str]:
    """Returns the indices of the GPUs that Spark has given to this rank's task, as texts; none if
    the cluster does not manage GPUs."""
    return [word for word in os.environ.get(GPUS, "").split(",") if word]
