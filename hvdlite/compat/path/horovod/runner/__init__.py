"""horovod.runner: starting jobs."""

from hvdlite.launch.function import run

from ._arguments import _HorovodArgs as _HorovodArgs

__all__ = ["run"]
