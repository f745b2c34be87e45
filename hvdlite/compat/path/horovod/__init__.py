"""Is found where programs look for horovod, and puts hvdlite in its place. See hvdlite.compat; `hvdlite compat install` copies it."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from hvdlite import compat
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"horovod is a name for hvdlite here ({__file__}), but {sys.executable} cannot import {error.name}: "
        "install hvdlite for this Python, or end the alias with `pip uninstall horovod`.",
        name="horovod",
    ) from error
from hvdlite.compat import finder, original

if TYPE_CHECKING:
    from hvdlite.launch.function import run

__all__ = ["run"]

__version__ = compat.HOROVOD_VERSION

# Modules that hvdlite has under no other name are beside this file in hvdlite, wherever this copy of it is.
__path__ = [os.path.join(compat.DIRECTORY, "horovod")]

finder.install()
original.say_if_hidden()


def __getattr__(name: str) -> Any:
    # Not before it is asked for: data loaders' processes import horovod, too, and start no jobs.
    if name in ("run", "runner"):
        runner = import_module("horovod.runner")
        return runner if name == "runner" else runner.run
    raise AttributeError(f"module 'horovod' has no attribute {name!r}")
