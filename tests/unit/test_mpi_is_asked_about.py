"""When MPI is loaded and initialised: a table, because a mistake ends processes that have nothing
to do with MPI."""

from __future__ import annotations

import pytest

from hvdlite.launch import environment
from hvdlite.launch.environment import Identity, asks_about_mpi, discover
from hvdlite.launch.environment.identity import OverMpi

OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "4"}
MVAPICH = {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "4"}
JSRUN = {"JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_SIZE": "4"}
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
SRUN = {
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "n[1-2]",
}
STORE = {"HVDLITE_RENDEZVOUS": "h:1", "HVDLITE_SECRET": "ab" * 32}
OURS = {f"HVDLITE_{name}": "1" for name in ("RANK", "LOCAL_RANK", "CROSS_RANK")} | STORE
OURS |= {"HVDLITE_SIZE": "4", "HVDLITE_LOCAL_SIZE": "2", "HVDLITE_CROSS_SIZE": "2"}
HOROVODRUN = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "4", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "h"}
HOROVODRUN |= {"HOROVOD_GLOO_RENDEZVOUS_PORT": "1"}


@pytest.mark.parametrize(
    ("environ", "by_mpi"),
    [
        pytest.param(OPEN_MPI, True, id="Open MPI"),
        pytest.param(HYDRA, True, id="MPICH"),
        pytest.param(MVAPICH, True, id="MVAPICH"),
        pytest.param(JSRUN, True, id="jsrun"),
        pytest.param(JSRUN | {"PMIX_RANK": "1"}, True, id="jsrun, with PMIx's rank"),
        pytest.param(OPEN_MPI | STORE, True, id="hvdliterun --mpi"),
        pytest.param(HYDRA | STORE, True, id="hvdliterun --mpi, MPICH"),
        pytest.param(OPEN_MPI | SRUN, True, id="mpirun in a Slurm step"),
        pytest.param(SRUN, False, id="srun"),
        pytest.param(SRUN | HYDRA, False, id="srun --mpi=pmi2"),
        pytest.param(
            SRUN | {"PMIX_RANK": "1", "PMIX_NAMESPACE": "slurm.pmix.1.0"},
            False,
            id="srun --mpi=pmix",
        ),
        pytest.param(SRUN | STORE, False, id="hvdliterun --srun"),
        pytest.param(TORCHRUN, False, id="torchrun"),
        pytest.param(TORCHRUN | OPEN_MPI, False, id="torchrun started by mpirun"),
        pytest.param(OURS, False, id="hvdliterun"),
        pytest.param(OURS | OPEN_MPI, False, id="hvdliterun started by mpirun"),
        pytest.param(HOROVODRUN, False, id="horovodrun"),
        pytest.param({}, False, id="python"),
    ],
)
def test_whose_processes_can_initialise_mpi(environ: dict[str, str], by_mpi: bool) -> None:
    assert discover(environ).by_mpi is by_mpi


def test_who_is_alone_has_nothing_to_ask() -> None:
    assert not asks_about_mpi(Identity(), "mpi", True, (0, 1))


SPREAD = Identity(
    1, 4, local_rank=1, local_size=2, launcher="mpirun", by_mpi=True, meeting=OverMpi()
)
UNKNOWN = Identity(1, 4, launcher="mpirun", by_mpi=True, meeting=OverMpi())
TOGETHER = Identity(
    1, 4, local_rank=1, local_size=4, launcher="mpirun", by_mpi=True, meeting=OverMpi()
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
