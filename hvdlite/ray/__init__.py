"""Jobs whose ranks are actors of Ray. `horovod.ray` is this module.

executor = RayExecutor(RayExecutor.create_settings(), num_workers=4)
executor.start()
results = executor.run(train)
executor.shutdown()

    runner       START HERE: RayExecutor
    settings     what a user chooses
    static       a job whose ranks stay: starts actors, collects what they return or raise
    worker       the actor of a rank
    coordinator  numbers the ranks, and has the store where they connect
    rank_order   decides which rank each actor has, and its environment
    identity     what a process of Ray reports about itself, and how it becomes a rank
    cause        decides which rank's failure has ended a run
    strategy     placement groups of Ray
    bundles      decides which resources a placement group asks for
    elastic      ElasticRayExecutor: a job whose ranks change
    elastic_job  runs it: the driver of hvdlite.launch.elastic, with an actor for each member
    elastic_v2   the same behind RayExecutor(min_workers=...)
    nodes        decides which hosts and slots the nodes of a cluster are
    ray_logger   values that ranks send to the callbacks of the driver
    train        a backend for Ray Train
    utils        what Ray's own HorovodTrainer asks for
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvdlite.ray.elastic import ElasticRayExecutor as ElasticRayExecutor
    from hvdlite.ray.runner import RayExecutor as RayExecutor
    from hvdlite.ray.worker import BaseHorovodWorker as BaseHorovodWorker

# Looked up on first use: actors import their own module only, and what decides needs no Ray.
_HOMES = {
    "RayExecutor": "hvdlite.ray.runner",
    "BaseHorovodWorker": "hvdlite.ray.worker",
    "ElasticRayExecutor": "hvdlite.ray.elastic",
}
_OLDEST = (2, 9)

__all__ = ["BaseHorovodWorker", "ElasticRayExecutor", "RayExecutor"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hvdlite.ray' has no attribute {name!r}")
    require_ray()
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def require_ray() -> None:
    """Raises ImportError with one sentence if Ray is missing or too old."""
    try:
        version = metadata.version("ray")
    except metadata.PackageNotFoundError:
        raise ImportError(
            'hvdlite.ray needs Ray, which is not installed: pip install ".[ray]" in a clone of '
            "hvdlite"
        ) from None
    if _numbers(version) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ImportError(
            f"hvdlite.ray needs Ray {oldest}, and {version} is installed: "
            'pip install ".[ray]" in a clone of hvdlite'
        )


def _numbers(version: str) -> tuple[int, ...]:
    first, second = version.split(".")[:2]
    return int(first), int("".join(filter(str.isdigit, second)) or 0)
