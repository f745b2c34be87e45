"""The names that hvdlite has for every framework, besides those on the framework's own tensors."""

from __future__ import annotations

from hvdlite.core.process_sets import ProcessSet as ProcessSet
from hvdlite.core.process_sets import global_process_set as global_process_set
from hvdlite.job import basics as _basics
from hvdlite.job import horovod_basics as _built
from hvdlite.job import observe as _observe
from hvdlite.job import progress as _progress
from hvdlite.job import scalars as _scalars
from hvdlite.job.basics import *  # noqa: F403
from hvdlite.job.horovod_basics import *  # noqa: F403
from hvdlite.job.observe import *  # noqa: F403
from hvdlite.job.process_sets import add_process_set as add_process_set
from hvdlite.job.process_sets import remove_process_set as remove_process_set
from hvdlite.job.progress import *  # noqa: F403
from hvdlite.job.scalars import *  # noqa: F403

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]
__all__ += _basics.__all__
__all__ += _built.__all__
__all__ += _observe.__all__
__all__ += _progress.__all__
__all__ += _scalars.__all__


def listed(names: list[str]) -> list[str]:
    """What dir() shows of a framework's public names: not Horovod's questions about its build."""
    return sorted(set(names).difference(_built.__all__))
