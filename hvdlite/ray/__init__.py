"""Jobs whose ranks are actors of Ray. `horovod.ray` is this module.

executor = RayExecutor(RayExecutor.create_settings(), num_workers=4)
executor.start()
results = executor.run(train)
executor.shutdown()

runner      START HERE: RayExecutor, and what it has of a job whose ranks stay
static      its actors
coordinator, seats    which rank each actor has
meeting     the store where they meet; `place` is what an actor does to get there
strategy    placement groups; `bundles` decides what is in them
worker      the actor; `host` says where it runs
gathering   results of all ranks; `blame` decides whose failure it was
elastic     jobs whose ranks change: `elastic_job` runs them, with a `member` for each process
ray_logger  values that ranks send to callbacks of the driver
train       a backend for Ray Train; `utils` is for Ray's own HorovodTrainer
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hvdlite.ray import requirement as _requirement

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
__all__ = ["BaseHorovodWorker", "ElasticRayExecutor", "RayExecutor"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hvdlite.ray' has no attribute {name!r}")
    _requirement.check()
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
