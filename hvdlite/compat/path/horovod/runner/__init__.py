"""horovod.runner: starting jobs."""

from hvdlite.launch.function import run

__all__ = ["run"]
