"""Runs programs written for Horovod unchanged: `import horovod.torch` and its siblings give
hvdlite's own modules.

    hvdliterun --horovod-compat ...        the ranks of one job
    python -m hvdlite.compat train.py      one program
    pytest -p hvdlite.compat.pytest        tests
    hvdlite compat install                 everything in this environment, until `hvdlite compat
                                           remove`

Nothing is called horovod unless one of these asks for it. All of them put `path`, a directory with
a package `horovod`, first where Python looks for modules (docs/guides/migrating.md).

    finder         START HERE: answers every horovod.* import
    names          maps each module of Horovod to hvdlite's
    installation   `hvdlite compat`: the package in an environment
    original       finds the real Horovod
    pytest         the plugin of pytest
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from hvdlite.compat.names import DIRECTORY, HOROVOD_VERSION

__all__ = ["DIRECTORY", "HOROVOD_VERSION", "activate", "environment"]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables by which new processes and their children find the alias."""
    before = environ.get("PYTHONPATH", "")
    others = [entry for entry in before.split(os.pathsep) if entry != DIRECTORY] if before else []
    return {"PYTHONPATH": os.pathsep.join([DIRECTORY, *others])}


def activate() -> None:
    """Turns the alias on for the rest of this process and for processes that it starts. For
    notebooks and tests."""
    from hvdlite.compat import finder

    finder.install()
    if DIRECTORY not in sys.path:  # multiprocessing passes sys.path to its children
        sys.path.insert(0, DIRECTORY)
    os.environ.update(environment(os.environ))
