"""What lies in /dev/shm with a name: the MPI libraries' segments. hvdlite's have none."""

from __future__ import annotations

import contextlib
from pathlib import Path

_FOLDER = Path("/dev/shm")
_NAMES = ("mpich_shm_*", "sm_segment.*")  # MPICH's, Open MPI's


def of_mpi() -> set[Path]:
    """The segments of all MPI jobs of this machine, those that are running as well."""
    return {path for name in _NAMES for path in _FOLDER.glob(name)}


def in_use() -> set[Path]:
    """What a living process has mapped."""
    found = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # it has just ended
            for line in maps.read_text(errors="replace").splitlines():
                _, _, name = line.partition(f"{_FOLDER}/")
                if name:
                    found.add(_FOLDER / name)
    return found
