"""The launchers, with the variables by which a process recognises them: one row each, the highest
first.

The rows have been checked in real runs, except JSM's, which follows IBM's documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hvdlite.launch import nodelist
from hvdlite.launch.environment.identity import Numbers

Pair = tuple[str, str]  # the variables of a rank and of the size that it is below

# Steps with these numbers are not those of srun: the batch script, the external step, the shell of
# salloc.
_FIRST_RESERVED_STEP = 0xFFFFFFF0


class Source(NamedTuple):
    """`signs`: groups of variables. If all variables of one group are set, the process counts as
    one of this launcher's ranks."""

    launcher: str
    global_: Pair
    signs: tuple[tuple[str, ...], ...]
    local: Pair = ("", "")
    cross: Pair = ("", "")
    needs: tuple[str, ...] = ()  # variables that must be set besides rank and size
    # Sources of one family describe the same processes, so their sizes must agree.
    family: str = ""

    def is_here(self, environ: Mapping[str, str]) -> bool:
        return any(all(environ.get(name) for name in group) for group in self.signs)

    def named(self, environ: Mapping[str, str]) -> str:
        """Returns the launcher, for messages."""
        return self.launcher

    def has_mpi(self, environ: Mapping[str, str]) -> bool:
        """Whether its processes can initialise MPI. In others, MPI may end the process."""
        return self.family == "MPI"

    def read(self, environ: Mapping[str, str]) -> Numbers:
        """Returns the numbers. Raises ValueError if they are half set or contradict themselves."""
        needed = (*self.global_, *self.needs)
        missing = [name for name in needed if not environ.get(name)]
        if missing:
            given = [
                name for name in dict.fromkeys((*needed, *sum(self.signs, ()))) if environ.get(name)
            ]
            raise ValueError(
                f"{', '.join(given)} set, but {', '.join(missing)} not: a process of "
                f"{self.launcher} needs all of them "
                f"or none. {self.launcher} sets them; unset them to run a single process."
            )
        rank, size = self._pair(environ, self.global_)
        local_rank, local_size = self._optional(environ, self.local, size)
        cross_rank, cross_size = self._optional(environ, self.cross, size)
        return Numbers(rank, size, local_rank, local_size, cross_rank, cross_size)

    def _pair(self, environ: Mapping[str, str], names: Pair) -> tuple[int, int]:
        rank, size = (whole_number(environ, name) for name in names)
        if rank >= size:
            raise ValueError(f"{names[0]}={rank} has to be below {names[1]}={size}.")
        return rank, size

    def _optional(
        self, environ: Mapping[str, str], names: Pair, size: int
    ) -> tuple[int | None, int | None]:
        if not all(environ.get(name) for name in names):
            return None, None
        rank, part = self._pair(environ, names)
        if part > size:
            raise ValueError(f"{names[1]}={part} exceeds {self.global_[1]}={size}.")
        return rank, part


class SlurmStep(Source):
    """Slurm gives the tasks of all nodes in one text. It sets the same variables for processes that
    are no tasks of a step."""

    def is_here(self, environ: Mapping[str, str]) -> bool:
        step = environ.get("SLURM_STEP_ID", "")
        reserved = step.isdecimal() and int(step) >= _FIRST_RESERVED_STEP
        return super().is_here(environ) and not reserved

    def read(self, environ: Mapping[str, str]) -> Numbers:
        numbers = super().read(environ)
        tasks = environ.get("SLURM_STEP_TASKS_PER_NODE")
        if not (tasks and environ.get("SLURM_NODEID") and environ.get("SLURM_LOCALID")):
            return numbers
        counts = nodelist.tasks_per_node(tasks)
        node, local_rank = (
            whole_number(environ, "SLURM_NODEID"),
            whole_number(environ, "SLURM_LOCALID"),
        )
        if sum(counts) != numbers.size:
            raise ValueError(
                f"{self.global_[1]}={numbers.size}, but SLURM_STEP_TASKS_PER_NODE={tasks} makes "
                f"{sum(counts)} processes: one of them was changed after srun had set it. Unset "
                "both, or start the program with srun."
            )
        if node >= len(counts) or local_rank >= counts[node]:
            raise ValueError(
                f"SLURM_NODEID={node} and SLURM_LOCALID={local_rank} do not fit "
                f"SLURM_STEP_TASKS_PER_NODE={tasks}."
            )
        return Numbers(numbers.rank, numbers.size, local_rank, counts[node])


class Torchrun(Source):
    """torchrun's variables, which others set as well: the Kubeflow operator, Ray Train, and people
    by hand."""

    def named(self, environ: Mapping[str, str]) -> str:
        by_torchrun = environ.get("TORCHELASTIC_RUN_ID")
        return self.launcher if by_torchrun else "the launcher that set MASTER_ADDR"


class Halved(Source):
    """torchrun's numbers of several processes, without a place to meet. Any program may use these
    names, so another launcher's variables count more."""

    def is_here(self, environ: Mapping[str, str]) -> bool:
        rank, size = (environ.get(name, "").strip() for name in self.global_)
        return rank.isdecimal() and size.isdecimal() and int(size) > 1


class Hydra(Source):
    """PMI's variables. `srun --mpi=pmi2` sets them as well. Slurm's own variables then say more,
    and its processes need no MPI to meet."""

    def is_here(self, environ: Mapping[str, str]) -> bool:
        return super().is_here(environ) and not self._by_slurm(environ)

    def _by_slurm(self, environ: Mapping[str, str]) -> bool:
        # Inside a step, the numbers of one of Hydra's processes may agree with Slurm's by chance,
        # while its neighbours' do not.
        if not SLURM.is_here(environ) or environ.get(self.local[0]):
            return False
        pairs = zip(self.global_, SLURM.global_, strict=True)
        return all(environ.get(pmi) == environ.get(slurm) for pmi, slurm in pairs)


class Pmix(Source):
    """PMIx has a variable for the rank and none for the size. Slurm's own PMIx sets the size by
    Slurm's variables."""

    def has_mpi(self, environ: Mapping[str, str]) -> bool:
        return JSM.is_here(environ) and not SLURM.is_here(environ)

    def read(self, environ: Mapping[str, str]) -> Numbers:
        if SLURM.is_here(environ) and environ.get("PMIX_NAMESPACE", "").startswith("slurm."):
            numbers = SLURM.read(environ)
            if whole_number(environ, "PMIX_RANK") != numbers.rank:
                raise ValueError(
                    f"PMIX_RANK={environ['PMIX_RANK']}, but SLURM_PROCID={numbers.rank}: one of "
                    "them was inherited from another process. Unset it."
                )
            return numbers
        if JSM.is_here(environ):
            return JSM.read(environ)
        raise ValueError(
            f"PMIX_RANK={environ['PMIX_RANK']} is set, but nothing says how many processes there "
            "are: PMIx tells that to MPI only. Start the program with mpirun (whose "
            "OMPI_COMM_WORLD_SIZE says it), with srun or with hvdliterun; unset PMIX_RANK to run "
            "a single process."
        )


def whole_number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name].strip()
    if not text.isdecimal():
        raise ValueError(
            f"{name}={environ[name]!r} is not allowed: expected a whole number of at least 0."
        )
    return int(text)


def _own(launcher: str, prefix: str, *, all_needed: bool) -> Source:
    """Returns our six variables, or Horovod's, which have another prefix."""
    global_, local, cross = (
        (f"{prefix}_{of}RANK", f"{prefix}_{of}SIZE") for of in ("", "LOCAL_", "CROSS_")
    )
    needs = (*local, *cross)
    signs = tuple((name,) for name in (*global_, *needs))
    return Source(
        launcher, global_, signs, local, cross, needs if all_needed else (), family="Horovod"
    )


HVDLITE = _own("hvdliterun", "HVDLITE", all_needed=True)
HOROVOD = _own("horovodrun", "HOROVOD", all_needed=False)
# Any program may use the names RANK and WORLD_SIZE. With MASTER_ADDR they mean torchrun.
TORCHRUN = Torchrun(
    "torchrun",
    ("RANK", "WORLD_SIZE"),
    (("RANK", "MASTER_ADDR"), ("TORCHELASTIC_RUN_ID",)),
    local=("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    needs=("MASTER_ADDR", "MASTER_PORT"),
)
HALVED = Halved("torchrun", TORCHRUN.global_, (TORCHRUN.global_,), needs=TORCHRUN.needs)
OPEN_MPI = Source(
    "Open MPI's mpirun",
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    (("OMPI_COMM_WORLD_RANK",), ("OMPI_COMM_WORLD_SIZE",)),
    local=("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    family="MPI",
)
MVAPICH = Source(
    "MVAPICH's mpirun",
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    (("MV2_COMM_WORLD_RANK",), ("MV2_COMM_WORLD_SIZE",)),
    local=("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    family="MPI",
)
HYDRA = Hydra(
    "mpiexec",  # of MPICH and of Intel MPI
    ("PMI_RANK", "PMI_SIZE"),
    (("PMI_RANK",), ("PMI_SIZE",)),
    local=("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    family="MPI",
)
# The body of a batch script has SLURM_PROCID and SLURM_NTASKS without being a rank, but no
# SLURM_STEP_ID. SLURM_NTASKS describes the allocation as often as the step.
SLURM = SlurmStep(
    "srun", ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), (("SLURM_STEP_ID", "SLURM_PROCID"),)
)
JSM = Source(
    "jsrun",
    ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    (("JSM_NAMESPACE_RANK",), ("JSM_NAMESPACE_SIZE",)),
    local=("JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"),
    family="MPI",
)
PMIX = Pmix("PMIx", ("PMIX_RANK", ""), (("PMIX_RANK",),))

# MPI comes before Slurm: mpirun's processes inherit the step of the daemon that started them.
# torchrun comes before both: under srun, the tasks are its agents.
SOURCES = (HVDLITE, HOROVOD, TORCHRUN, OPEN_MPI, MVAPICH, HYDRA, PMIX, SLURM, JSM, HALVED)
