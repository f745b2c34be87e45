"""When MPI is loaded and initialised: a table, because a mistake ends processes that have nothing
to do with MPI."""

from __future__ import annotations

import pytest
from cases import cases, variables

from hvdlite.launch import environment
from hvdlite.launch.environment import Identity, asks_about_mpi, discover
from hvdlite.launch.environment.identity import OverMpi

OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "4"}
MVAPICH = {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "4"}
JSRUN = {"JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_SIZE": "4"}
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
SRUN = variables("SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NODELIST=n[1-2]")
STORE = {"HVDLITE_RENDEZVOUS": "h:1", "HVDLITE_SECRET": "ab" * 32}
OURS = {f"HVDLITE_{name}": "1" for name in ("RANK", "LOCAL_RANK", "CROSS_RANK")} | STORE
OURS |= {"HVDLITE_SIZE": "4", "HVDLITE_LOCAL_SIZE": "2", "HVDLITE_CROSS_SIZE": "2"}
HOROVODRUN = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "4", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "h"}
HOROVODRUN |= {"HOROVOD_GLOO_RENDEZVOUS_PORT": "1"}


@cases(
    "environ, by_mpi",
    {
        "Open MPI": (OPEN_MPI, True),
        "MPICH": (HYDRA, True),
        "MVAPICH": (MVAPICH, True),
        "jsrun": (JSRUN, True),
        "jsrun, with PMIx's rank": (JSRUN | {"PMIX_RANK": "1"}, True),
        "hvdliterun --mpi": (OPEN_MPI | STORE, True),
        "hvdliterun --mpi, MPICH": (HYDRA | STORE, True),
        "mpirun in a Slurm step": (OPEN_MPI | SRUN, True),
        "srun": (SRUN, False),
        "srun --mpi=pmi2": (SRUN | HYDRA, False),
        "srun --mpi=pmix": (SRUN | {"PMIX_RANK": "1", "PMIX_NAMESPACE": "slurm.pmix.1.0"}, False),
        "hvdliterun --srun": (SRUN | STORE, False),
        "torchrun": (TORCHRUN, False),
        "torchrun started by mpirun": (TORCHRUN | OPEN_MPI, False),
        "hvdliterun": (OURS, False),
        "hvdliterun started by mpirun": (OURS | OPEN_MPI, False),
        "horovodrun": (HOROVODRUN, False),
        "python": ({}, False),
    },
)
def test_whose_processes_can_initialise_mpi(environ: dict[str, str], by_mpi: bool) -> None:
    assert discover(environ).by_mpi is by_mpi


def test_who_is_alone_has_nothing_to_ask() -> None:
    assert not asks_about_mpi(Identity(), "mpi", True, (0, 1))


SPREAD = Identity(
    1, 4, local_rank=1, local_size=2, launcher="mpirun", by_mpi=True, rendezvous_method=OverMpi()
)
UNKNOWN = Identity(1, 4, launcher="mpirun", by_mpi=True, rendezvous_method=OverMpi())
TOGETHER = Identity(
    1, 4, local_rank=1, local_size=4, launcher="mpirun", by_mpi=True, rendezvous_method=OverMpi()
)
NOT_BY_MPI = Identity(1, 4, local_rank=1, local_size=2, launcher="srun")


@pytest.mark.parametrize(
    ("me", "operations", "pretends", "world", "asks"),
    [
        *[(me, "mpi", False, None, True) for me in (SPREAD, UNKNOWN, TOGETHER, NOT_BY_MPI)],
        *[(SPREAD, chosen, True, (1, 4), False) for chosen in ("gloo", "shm", "net")],
        (SPREAD, "auto", False, None, True),
        (UNKNOWN, "auto", False, None, True),
        (TOGETHER, "auto", False, None, False),
        (TOGETHER, "auto", True, None, True),  # HVDLITE_HOST_ID
        (NOT_BY_MPI, "auto", False, None, False),
        (NOT_BY_MPI, "auto", True, None, False),
        # The program's own mpi4py.
        (NOT_BY_MPI, "auto", False, (1, 4), True),
        (NOT_BY_MPI, "auto", False, (0, 1), False),
        (NOT_BY_MPI, "auto", False, (2, 4), False),
        (TOGETHER, "auto", False, (1, 4), False),
    ],
)
def test_the_table(
    me: environment.Identity,
    operations: str,
    pretends: bool,
    world: tuple[int, int] | None,
    asks: bool,
) -> None:
    assert asks_about_mpi(me, operations, pretends, world) is asks
