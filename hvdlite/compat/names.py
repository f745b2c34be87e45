"""Maps each module of Horovod to hvdlite's, with a sentence for those that do not exist."""

from __future__ import annotations

import os
from types import ModuleType

#: programs compare horovod.__version__ with their requirement; hvdlite has the API of this release
HOROVOD_VERSION = "0.28.1"

#: the folder for the module search path; it has a package `horovod` and its metadata
DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "path")

# Whole packages: the names inside are the same on both sides, except for _RENAMED.
_ADAPTERS = ("torch", "tensorflow", "keras", "ray", "spark")

_RENAMED = {
    "horovod.common.basics": "hvdlite.job.horovod_basics",
    "horovod.common.elastic": "hvdlite.elastic.horovod_names",
    "horovod.common.exceptions": "hvdlite.exceptions",
    "horovod.common.process_sets": "hvdlite.job.process_sets",
    "horovod.runner.elastic.driver": "hvdlite.launch.elastic.host_discovery",
    "horovod.runner.elastic.worker": "hvdlite.elastic.horovod_names",
    "horovod.tensorflow.data": "hvdlite.data",
    "horovod.tensorflow.data.compute_service": "hvdlite.data.compute_service",
    "horovod.tensorflow.data.compute_worker": "hvdlite.data.compute_worker",
    "horovod.tensorflow.gradient_aggregation": "hvdlite.tensorflow.aggregation",
    "horovod.tensorflow.gradient_aggregation_eager": "hvdlite.tensorflow.aggregation_eager",
}

#: What `python -m` runs, and no package therefore.
PROGRAMS = ("horovod.tensorflow.data.compute_worker",)

_START = "start the processes with hvdliterun or your cluster's own launcher"

_CHECKPOINTS = (
    "take the elastic parts out and save checkpoints, from which the job can be started again"
)

UNKNOWN = "docs/guides/migrating.md lists what there is"

# What to do instead. missing() has the rest of the sentence.
_INSTEAD = {
    "horovod.spark": "docs/guides/spark.md says what of it there is",
    "horovod.mxnet": "MXNet is no longer maintained; move the model to torch, TensorFlow or JAX",
    "horovod.data": "use your framework's own loader, such as "
    "hvd.data.shard(torch.utils.data.DataLoader(num_workers=...))",
    "horovod.jax": "Horovod never had one, and hvdlite's is `import hvdlite.jax as hvd`",
    "horovod.runner.http": "the ranks of hvdliterun meet by themselves; hvd.init(rank=, size=, "
    "rendezvous=, secret=) is for processes that you start",
    "horovod.runner.elastic": "hvdliterun has a driver of its own; --host-discovery-script names "
    "the hosts, and hvd.elastic is what ranks use",
    "horovod.runner.driver": _START,
    "horovod._keras": "import horovod.keras or horovod.tensorflow.keras",
}


def target(name: str) -> str | None:
    """Returns the module of hvdlite for `name`, a module of horovod; it need not exist. None: the
    alias has the module itself."""
    if name in _RENAMED:
        return _RENAMED[name]
    _, _, inside = name.partition(".")
    return f"hvdlite.{inside}" if inside.partition(".")[0] in _ADAPTERS else None


def instead(name: str) -> str:
    """Returns what to do if hvdlite has nothing for this module or its package."""
    while name:
        if name in _INSTEAD:
            return _INSTEAD[name]
        name = name.rpartition(".")[0]
    return UNKNOWN


def missing(name: str) -> ModuleNotFoundError:
    """Returns the error for a module that hvdlite does not have."""
    return ModuleNotFoundError(f"hvdlite has no {name}: {instead(name)}.", name=name)


def is_empty(module: ModuleType) -> bool:
    """Whether the module is only a placeholder for something that hvdlite does not have yet."""
    return getattr(module, "__all__", None) == []
