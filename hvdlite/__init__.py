"""Data-parallel training in two lines.

    import hvdlite as hvd
    hvd.init()
    gradient = hvd.allreduce(gradient)

These functions take numpy arrays and everything that speaks DLPack. For a framework import its
adapter instead (`import hvdlite.torch as hvd`, ...); each has the same functions with the
framework's own tensors.

Names are looked up lazily: `import hvdlite` loads neither numpy nor the native core, so that
`hvdliterun --help` works on a login node.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any

from hvdlite.base.operations import OPERATIONS as _OPERATIONS

__version__ = "0.1.0"

# Where each public name lives.
_HOMES = {
    "hvdlite.job.basics": (
        "init shutdown is_initialized rank size local_rank local_size cross_rank cross_size "
        "is_homogeneous".split()
    ),
    "hvdlite.base.ops": "Average Sum Adasum Min Max Product".split(),
    "hvdlite.core.arrays.ops": [
        *(name for row in _OPERATIONS for name in row.functions()),
        *"barrier empty in_shared_memory join plan".split(),
    ],
    "hvdlite.core.handles": ["poll", "synchronize"],
    "hvdlite.job.observe": ["start_timeline", "stop_timeline", "metrics", "recent_operations"],
    "hvdlite.job.progress": ["progress"],
    "hvdlite.job.scalars": ["metric_scalars"],
    "hvdlite.core.arrays.objects": ["broadcast_object", "allgather_object"],
    "hvdlite.job.process_sets": [
        "ProcessSet",
        "add_process_set",
        "remove_process_set",
        "global_process_set",
    ],
    "hvdlite.launch.function": ["run"],
    "hvdlite.exceptions": (
        "HorovodInternalError MismatchError PeerLostError ShutDownError NotInitializedError "
        "DuplicateNameError".split()
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = [*_HOME_OF, "__version__", "data", "elastic"]


def __getattr__(name: str) -> Any:
    if name == "_core":
        return _native()
    if name in ("data", "elastic"):
        return import_module(f"hvdlite.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'hvdlite' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


# What these Python files and the core are built from alike. Another version of the sources may
# differ in them.
_SHARED_WITH_CORE = ("_core.pyi", "base/knobs.py")


def _native() -> Any:
    folder = os.path.dirname(os.path.realpath(__file__))
    if not any(_has(folder, f"_core{suffix}") for suffix in EXTENSION_SUFFIXES):
        # Without a compiled module for this Python, _core.py needs the library alone.
        why = _borrow_core(folder)
        if why and not _has(folder, "libhvdlite.so"):
            raise ImportError(f"hvdlite's native core is missing: {why}", name="hvdlite._core")
    return import_module("hvdlite._core")


def _borrow_core(folder: str) -> str:
    """In a clone, the sources hide the hvdlite that `pip install .` has installed. Takes its core.

    Returns why there is none.
    """
    root = os.path.dirname(folder)
    if not _has(root, "CMakeLists.txt"):
        return f"{folder} is not complete: install hvdlite anew"
    elsewhere = (os.path.join(os.path.realpath(entry), "hvdlite") for entry in sys.path)
    for other in elsewhere:
        if other == folder or not _has(other, "libhvdlite.so"):
            continue
        if any(not _same(folder, other, name) for name in _SHARED_WITH_CORE):
            return (
                f"{other} is installed, but {folder} is another version of the sources: "
                f"`pip install {root}`, or work elsewhere"
            )
        spec = PathFinder.find_spec("hvdlite._core", [other])
        assert spec and spec.loader
        sys.modules[spec.name] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return ""
    return f"{folder} is the source, and no hvdlite is installed: `pip install {root}`"


def _has(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name))


def _same(one: str, other: str, name: str) -> bool:
    if not _has(other, name):
        return False
    with (
        open(os.path.join(one, name), "rb") as here,
        open(os.path.join(other, name), "rb") as there,
    ):
        return here.read() == there.read()


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from hvdlite import data as data
    from hvdlite import elastic as elastic
    from hvdlite.base.ops import *  # noqa: F403
    from hvdlite.core.arrays.objects import *  # noqa: F403
    from hvdlite.core.arrays.ops import *  # noqa: F403
    from hvdlite.core.handles import *  # noqa: F403
    from hvdlite.exceptions import *  # noqa: F403
    from hvdlite.job.basics import *  # noqa: F403
    from hvdlite.job.observe import *  # noqa: F403
    from hvdlite.job.process_sets import *  # noqa: F403
    from hvdlite.job.progress import *  # noqa: F403
    from hvdlite.job.scalars import *  # noqa: F403
    from hvdlite.launch.function import *  # noqa: F403
