"""Python finds this package for horovod, and it puts hvdlite in its place. See hvdlite.compat.
`hvdlite compat install` copies it."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from hvdlite import compat
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"horovod is a name for hvdlite here ({__file__}), but {sys.executable} cannot import "
        f"{error.name}: "
        "install hvdlite for this Python, or end the alias with `pip uninstall horovod`.",
        name="horovod",
    ) from error
from hvdlite.compat import finder, original

if TYPE_CHECKING:
    from hvdlite.launch.function import run

__all__ = ["run"]

__version__ = compat.HOROVOD_VERSION

# Modules that exist only under Horovod's names are beside this file in hvdlite, also if this is a
# copy elsewhere.
__path__ = [os.path.join(compat.DIRECTORY, "horovod")]

finder.install()
original.say_if_hidden()


def __getattr__(name: str) -> Any:
    # On first use only: the processes of data loaders import horovod, too, and start no jobs.
    if name in ("run", "runner"):
        runner = import_module("horovod.runner")
        return runner if name == "runner" else runner.run
    raise AttributeError(f"module 'horovod' has no attribute {name!r}")
