"""The battery over Debian's Open MPI and MPICH, with mpi4py's wheel and the same binary of ours:
`tests/versions/run mpi-debian`.

Not called test_, so that only who names it runs it: it wants `apt-get install openmpi-bin mpich`.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from battery import battery_of
from launchers import MPICH, OPENMPI
from over_mpi import configurations

_LIBRARIES = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu"
# MPICH calls its library libmpi.so.12, which is the name that mpi4py's wheel was linked with;
# Debian has renamed it.
_RENAMED = tempfile.TemporaryDirectory(prefix="hvdlite-libmpich-")
_MPICH = Path(_RENAMED.name) / "libmpi.so.12"
_MPICH.symlink_to(_LIBRARIES / "libmpich.so.12")


def _environment(abi: str, library: Path) -> dict[str, str]:
    return {
        "MPI4PY_MPIABI": abi,
        "MPI4PY_LIBMPI": str(library),
        "LD_LIBRARY_PATH": str(library.parent),
    }


DEBIAN_OPENMPI = replace(
    OPENMPI,
    command=(
        "/usr/bin/mpirun.openmpi",
        "--allow-run-as-root",
        "--bind-to",
        "none",
        "--oversubscribe",
        "-n",
    ),
    environment=_environment("openmpi", _LIBRARIES / "libmpi.so.40")
    | {"OMPI_MCA_mpi_yield_when_idle": "1"},
    library=_LIBRARIES / "libmpi.so.40",
    package="`apt-get install openmpi-bin`",
)
DEBIAN_MPICH = replace(
    MPICH,
    command=("/usr/bin/mpiexec.mpich", "-n"),
    environment=_environment("mpich", _MPICH),
    library=_MPICH,
    package="`apt-get install mpich`",
)

test_it, test_nothing_is_left_behind = battery_of(
    (*configurations(DEBIAN_OPENMPI), *configurations(DEBIAN_MPICH))
)
