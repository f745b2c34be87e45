"""Which rank a process is, and when it must refuse to believe that it is alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cases import cases, variables
from machine import within

from hvdlite.launch import secret as job_secret
from hvdlite.launch.environment import (
    Identity,
    InitArguments,
    discover,
    parse_address,
    parse_addresses,
)
from hvdlite.launch.environment.identity import (
    AtPorts,
    AtStore,
    OnThisHost,
    OverHttp,
    OverMpi,
    OverTorchStore,
    RendezvousMethod,
)

SECRET = bytes(range(32))


def _places(
    prefix: str, rank: int = 1, size: int = 4, cross: tuple[int, int] | None = None
) -> dict[str, str]:
    """The variables of a launcher: this rank, which is the second of two on its host."""
    numbers = {"RANK": rank, "SIZE": size, "LOCAL_RANK": 1, "LOCAL_SIZE": 2}
    numbers |= {"CROSS_RANK": cross[0], "CROSS_SIZE": cross[1]} if cross else {}
    return {prefix + name: str(number) for name, number in numbers.items()}


OURS = _places("HVDLITE_", 5, 6, (2, 3))
OURS |= {"HVDLITE_RENDEZVOUS": "127.0.0.1:4000", "HVDLITE_SECRET": SECRET.hex()}
ALONE = {
    name: "1" if name.endswith("SIZE") else "0" for name in OURS if name.endswith(("RANK", "SIZE"))
}


def test_nothing_set_is_a_single_process() -> None:
    assert discover({"PATH": "/bin"}) == Identity(rank=0, size=1, rendezvous_method=None)


def test_our_variables_say_it_all() -> None:
    store = AtStore((("127.0.0.1", 4000),))
    assert discover(OURS) == Identity(5, 6, 1, 2, 2, 3, "hvdliterun", store, SECRET)
    assert discover(OURS).rendezvous == ("127.0.0.1", 4000)


def test_a_single_rank_needs_no_meeting_point() -> None:
    assert discover(ALONE) == Identity(0, 1, 0, 1, 0, 1, "hvdliterun")


def test_the_secret_is_not_shown() -> None:
    shown = repr(discover(OURS))
    assert SECRET.hex() not in shown and repr(SECRET) not in shown


@pytest.mark.parametrize("name", [n for n in OURS if n.endswith(("RANK", "SIZE"))])
def test_a_half_set_environment_is_an_error_that_names_what_is_missing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} not: .* hvdliterun needs all of them or none"):
        discover({k: v for k, v in OURS.items() if k != name})
    with pytest.raises(ValueError, match="needs all of them or none"):
        discover({name: "1"})


def test_a_meeting_point_alone_is_half_set() -> None:
    with pytest.raises(ValueError, match="HVDLITE_RENDEZVOUS is set, but neither HVDLITE_RANK"):
        discover({"HVDLITE_RENDEZVOUS": "h:1"})
    with pytest.raises(ValueError, match=r"init\(rendezvous=...\) is set, but neither HVDLITE_R"):
        discover({}, InitArguments(rendezvous="h:1"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"HVDLITE_RANK": "x"}, r"HVDLITE_RANK='x' is not allowed: expected a whole number"),
        ({"HVDLITE_RANK": "-1"}, r"HVDLITE_RANK='-1' is not allowed"),
        ({"HVDLITE_RANK": "6"}, r"HVDLITE_RANK=6 has to be below HVDLITE_SIZE=6"),
        ({"HVDLITE_LOCAL_RANK": "2"}, r"HVDLITE_LOCAL_RANK=2 has to be below HVDLITE_LOCAL_SIZE=2"),
        ({"HVDLITE_CROSS_RANK": "3"}, r"HVDLITE_CROSS_RANK=3 has to be below HVDLITE_CROSS_SIZE=3"),
        ({"HVDLITE_LOCAL_SIZE": "7"}, r"HVDLITE_LOCAL_SIZE=7 exceeds HVDLITE_SIZE=6"),
        (
            {"HVDLITE_RENDEZVOUS": ""},
            r"HVDLITE_SIZE=6, but HVDLITE_RENDEZVOUS=host:port is not set",
        ),
        ({"HVDLITE_RENDEZVOUS": "nowhere"}, r"HVDLITE_RENDEZVOUS='nowhere' is not allowed"),
        ({"HVDLITE_SECRET": ""}, r"neither HVDLITE_SECRET_FD nor HVDLITE_SECRET"),
        ({"HVDLITE_SECRET": "abc"}, r"HVDLITE_SECRET has to be 64 hex digits"),
        ({"HVDLITE_SECRET_FD": "x"}, r"HVDLITE_SECRET_FD='x' is not allowed"),
    ],
)
def test_a_contradiction_is_an_error(change: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        discover(OURS | change)


def test_a_wrong_secret_is_not_repeated_in_the_error() -> None:
    with pytest.raises(ValueError) as error:
        discover(OURS | {"HVDLITE_SECRET": "deadbeefdeadbeef"})
    assert "deadbeef" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "address"),
    [("a:1", ("a", 1)), ("[::1]:80", ("::1", 80)), ("10.0.0.1:65535", ("10.0.0.1", 65535))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text, "X") == address


def test_several_ways_to_one_store() -> None:
    assert parse_addresses("a:1, [::1]:2", "X") == (("a", 1), ("::1", 2))
    with pytest.raises(ValueError, match="X='' is not allowed"):
        parse_addresses("a:1,", "X")


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:b", "a:0", "a:65536", "::1:80", "a:-1"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        parse_address(text, "X")


# --- the secret's descriptor


def test_the_secret_can_be_read_again_and_again_but_not_changed() -> None:
    descriptor = job_secret.store(SECRET)
    try:
        assert descriptor >= 100
        environ = {"HVDLITE_SECRET_FD": str(descriptor)}
        assert [job_secret.from_environment(environ) for _ in range(3)] == [SECRET] * 3
        with pytest.raises(OSError):
            os.pwrite(descriptor, b"x", 0)
    finally:
        os.close(descriptor)


def test_a_closed_or_foreign_descriptor_is_explained() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    with open(__file__, "rb") as foreign:
        for descriptor in (foreign.fileno(), reader, 987):
            with pytest.raises(ValueError, match="close_fds=False, or set HVDLITE_SECRET to 64"):
                job_secret.load(descriptor)
    os.close(reader)


# --- the secret's file


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET.hex()}\n")
    path.chmod(0o600)
    return path


def test_a_file_that_its_owner_alone_can_read_gives_the_secret(
    secret_file: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(secret_file)
    for path in (secret_file, link):
        assert job_secret.from_environment({"HVDLITE_SECRET_FILE": str(path)}) == SECRET
    secret_file.chmod(0o400)
    me = discover(TORCHRUN | {"HVDLITE_SECRET_FILE": str(secret_file)})
    assert me.secret == SECRET and SECRET.hex() not in repr(me)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o777])
def test_a_file_that_others_can_open_is_refused(secret_file: Path, mode: int) -> None:
    secret_file.chmod(mode)
    with pytest.raises(ValueError, match=rf"{secret_file} is open to others: .* {mode:04o}.*0600"):
        job_secret.read(str(secret_file))


def test_a_file_of_another_user_is_refused(secret_file: Path) -> None:
    status = os.stat(secret_file)
    assert job_secret.why_not_private(status, status.st_uid) == ""
    assert "belongs to user " in job_secret.why_not_private(status, status.st_uid + 1)


def test_what_is_no_file_with_a_secret_is_told(secret_file: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # which would hold up whoever opens it
    for name, text in (
        ("nowhere", "cannot be read: No such file"),
        ("", "is not a regular"),
        ("pipe", "is not a regular"),
    ):
        with pytest.raises(ValueError, match=text):
            job_secret.read(str(tmp_path / name))
    secret_file.write_text("deadbeef" * 7)
    with pytest.raises(ValueError, match=rf"={secret_file} names has to be 64 hex") as error:
        job_secret.read(str(secret_file))
    assert "deadbeef" not in str(error.value)


def test_two_secrets_are_a_contradiction(secret_file: Path) -> None:
    both = {"HVDLITE_SECRET_FILE": str(secret_file), "HVDLITE_SECRET": SECRET.hex()}
    assert job_secret.from_environment(both) == SECRET
    with pytest.raises(ValueError, match="_SECRET_FILE are both set, and to different secrets"):
        job_secret.from_environment(both | {"HVDLITE_SECRET": bytes(32).hex()})
    # What hvdliterun hands on is the job's, also where a rank cannot read the file.
    descriptor = job_secret.store(SECRET)
    try:
        given = {"HVDLITE_SECRET_FD": str(descriptor), "HVDLITE_SECRET_FILE": "/nowhere"}
        assert job_secret.from_environment(given) == SECRET
    finally:
        os.close(descriptor)


def test_secrets_differ() -> None:
    assert len({job_secret.create() for _ in range(8)}) == 8


# --- other launchers: every row of what was seen on real runs

TORCHRUN = variables(
    "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 MASTER_ADDR=node1 "
    "MASTER_PORT=29500 TORCHELASTIC_RUN_ID=abc TORCHELASTIC_RESTART_COUNT=0 "
    "TORCHELASTIC_USE_AGENT_STORE=True"
)
RAY_TRAIN = variables(
    "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 "
    "MASTER_PORT=29500"
)
OPEN_MPI_4 = _places("OMPI_COMM_WORLD_") | variables(
    "OMPI_COMM_WORLD_NODE_RANK=1 PMIX_RANK=1 PMIX_NAMESPACE=1234 PMIX_HOSTNAME=node1 "
    "PMIX_SERVER_URI21=1234.0;tcp4://10.0.0.1:4000"
)
OPEN_MPI_5 = OPEN_MPI_4 | variables(
    "OMPI_UNIVERSE_SIZE=4 PMIX_NAMESPACE=prterun-node1-1@1 PRTE_LAUNCHED=1"
)
MVAPICH = _places("MV2_COMM_WORLD_")
MPICH = variables("PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 PMI_FD=9")
SRUN = variables(
    "SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_NTASKS=4 "
    "SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_STEP_NODELIST=n[07-08]"
)
SRUN_PMI2 = SRUN | variables("PMI_RANK=1 PMI_SIZE=4 PMI_FD=9 PMI_JOBID=77.0 SLURM_MPI_TYPE=pmi2")
SRUN_PMIX = SRUN | {"PMIX_RANK": "1", "PMIX_NAMESPACE": "slurm.pmix.77.0", "SLURM_MPI_TYPE": "pmix"}
HOROVODRUN = _places("HOROVOD_", cross=(0, 2)) | variables(
    "HOROVOD_GLOO_RENDEZVOUS_ADDR=10.0.0.1 HOROVOD_GLOO_RENDEZVOUS_PORT=4000 "
    "HOROVOD_CONTROLLER=gloo"
)
JSRUN = _places("JSM_NAMESPACE_")

# Rank 1 of 4, second on its host, under each of them.
FOREIGN = {
    "horovodrun": (HOROVODRUN, "horovodrun", OverHttp),
    "torchrun": (TORCHRUN, "torchrun", OverTorchStore),
    "Ray Train": (RAY_TRAIN, "the launcher that set MASTER_ADDR", AtPorts),
    "Open MPI 4": (OPEN_MPI_4, "Open MPI's mpirun", OverMpi),
    "Open MPI 5": (OPEN_MPI_5, "Open MPI's mpirun", OverMpi),
    "MVAPICH": (MVAPICH, "MVAPICH's mpirun", OverMpi),
    "MPICH and Intel MPI": (MPICH, "mpiexec", OverMpi),
    "srun": (SRUN, "srun", AtPorts),
    "srun --mpi=pmi2": (SRUN_PMI2, "srun", AtPorts),
    "srun --mpi=pmix": (SRUN_PMIX, "PMIx", AtPorts),
    "jsrun": (JSRUN, "jsrun", OverMpi),
    "jsrun with PMIx": (JSRUN | {"PMIX_RANK": "1"}, "PMIx", OverMpi),
    "jsrun with Spectrum MPI": (JSRUN | OPEN_MPI_4, "Open MPI's mpirun", OverMpi),
    # Traps.
    "trap 2: mpirun's processes inherit the step of its daemon": (
        SRUN
        | OPEN_MPI_4
        | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"},
        "Open MPI's mpirun",
        OverMpi,
    ),
    "trap 3: MPICH inside Slurm, three sizes in one process": (
        SRUN
        | MPICH
        | variables("SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=3")
        | variables("SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1"),
        "mpiexec",
        OverMpi,
    ),
    "trap 5: torchrun under srun, whose tasks are the agents": (
        SRUN
        | TORCHRUN
        | {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_LOCALID": "0"},
        "torchrun",
        OverTorchStore,
    ),
}


@cases("environ, launcher, method", FOREIGN)
def test_each_launcher_is_understood(
    environ: dict[str, str], launcher: str, method: type[RendezvousMethod]
) -> None:
    me = discover(environ)
    assert (me.rank, me.size, me.local_rank, me.local_size, me.launcher) == (1, 4, 1, 2, launcher)
    assert isinstance(me.rendezvous_method, method)
    assert me.secret is None and me.rendezvous is None
    assert discover(environ | {"HVDLITE_SECRET": SECRET.hex()}).secret == SECRET


def test_slurms_own_pmi_needs_no_mpi() -> None:
    assert discover(SRUN_PMI2) == discover(SRUN)
    # But Hydra's processes, which inherit the step's variables, may agree with them by chance, and
    # their neighbours not.
    assert isinstance(discover(SRUN | MPICH).rendezvous_method, OverMpi)
    assert isinstance(
        discover(SRUN_PMI2 | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0"}).rendezvous_method, OverMpi
    )


@cases("environ, launcher, method", FOREIGN)
def test_who_wants_to_be_alone_may(
    environ: dict[str, str], launcher: str, method: type[RendezvousMethod]
) -> None:
    """Trap 8: a program that only inherits the variables."""
    assert discover(environ | {"HVDLITE_ALLOW_SINGLETON": "1"}) == Identity()
    assert discover(environ | ALONE | {"HVDLITE_ALLOW_SINGLETON": "1"}).size == 1
    assert discover(environ | {"HVDLITE_ALLOW_SINGLETON": "0"}).size == 4


@cases("environ, launcher, method", FOREIGN)
def test_ranks_of_another_launcher_do_not_train_alone(
    environ: dict[str, str], launcher: str, method: type[RendezvousMethod]
) -> None:
    with pytest.raises(RuntimeError, match="started 4 processes .*_SIZE=1.*_ALLOW_SINGLETON=1"):
        discover(environ | ALONE)
    with pytest.raises(RuntimeError, match=r"has started 4 processes .*init\(size=1\)"):
        discover(environ, InitArguments(0, 1))


@cases("environ, launcher, method", FOREIGN)
def test_hvdliterun_and_arguments_count_more(
    environ: dict[str, str], launcher: str, method: type[RendezvousMethod]
) -> None:
    if launcher != "horovodrun":  # that one speaks of the same processes
        assert discover(environ | OURS).rank == 5
    me = discover(environ, InitArguments(2, 3, "h:1,[::1]:2", SECRET.hex()))
    assert me == Identity(
        2,
        3,
        launcher="the arguments of init()",
        rendezvous_method=AtStore((("h", 1), ("::1", 2)), may_open=True),
        secret=SECRET,
    )


@cases("environ, launcher, method", FOREIGN)
def test_a_launcher_may_leave_the_numbers_to_another_one(
    environ: dict[str, str], launcher: str, method: type[RendezvousMethod]
) -> None:
    """hvdliterun has opened the store, and mpirun or srun has started the ranks."""
    given = {"HVDLITE_RENDEZVOUS": "10.0.0.9:4000", "HVDLITE_SECRET": SECRET.hex()}
    me = discover(environ | given)
    assert (me.rank, me.size, me.launcher, me.secret) == (1, 4, launcher, SECRET)
    assert me.rendezvous_method == AtStore((("10.0.0.9", 4000),))
    with pytest.raises(ValueError, match="neither HVDLITE_SECRET_FD nor HVDLITE_SECRET"):
        discover(environ | given | {"HVDLITE_SECRET": ""})


def test_where_srun_ranks_meet() -> None:
    method = discover(SRUN).rendezvous_method
    assert isinstance(method, AtPorts) and method.hosts == ("n07",)
    others = [{"SLURM_JOB_ID": "78"}, {"SLURM_STEP_ID": "1"}, {"SLURM_RESTART_COUNT": "1"}]
    assert len({discover(SRUN | other).rendezvous_method for other in ({}, *others)}) == 4
    same = SRUN | {"SLURM_PROCID": "2", "SLURM_NODEID": "1", "SLURM_LOCALID": "0"}
    assert discover(same).rendezvous_method == method


def test_where_torchruns_ranks_meet() -> None:
    method = discover(TORCHRUN).rendezvous_method
    assert isinstance(method, OverTorchStore) and method.address == ("node1", 29500)
    assert discover(TORCHRUN | {"RANK": "2", "LOCAL_RANK": "0"}).rendezvous_method == method
    # A restarted attempt must not meet the one before it, nor another job on the same port.
    for other in ({"TORCHELASTIC_RESTART_COUNT": "1"}, {"TORCHELASTIC_RUN_ID": "abd"}):
        assert discover(TORCHRUN | other).rendezvous_method != method
    alone = discover(TORCHRUN | {"TORCHELASTIC_USE_AGENT_STORE": "False"}).rendezvous_method
    assert isinstance(alone, AtPorts) and alone.hosts == ("node1",)
    v6 = discover(TORCHRUN | {"MASTER_ADDR": "fd00::1"}).rendezvous_method
    assert isinstance(v6, OverTorchStore) and v6.address == ("fd00::1", 29500)


@pytest.mark.parametrize("environ", [RAY_TRAIN, SRUN], ids=["MASTER_ADDR", "srun"])
def test_a_user_may_open_a_job_to_strangers(environ: dict[str, str]) -> None:
    closed, opened = (
        discover(environ | more).rendezvous_method for more in ({}, {"HVDLITE_ALLOW_OPEN_JOB": "1"})
    )
    assert isinstance(closed, AtPorts) and not closed.may_be_open
    assert isinstance(opened, AtPorts) and opened.may_be_open


def test_where_horovodruns_ranks_meet() -> None:
    assert discover(HOROVODRUN).rendezvous_method == OverHttp(("10.0.0.1", 4000))


@cases(
    "environ",
    {
        "torchrun": TORCHRUN | {"LOCAL_WORLD_SIZE": "4"},
        "Ray Train": RAY_TRAIN | {"LOCAL_WORLD_SIZE": "4"},
        "two agents here": TORCHRUN | {"MASTER_ADDR": "127.0.0.1"},
        "by hand": variables("RANK=1 WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=29500"),
        "IPv6": {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "::1", "MASTER_PORT": "29500"},
        "srun": SRUN | {"SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_STEP_NODELIST": "n07"},
        "PMIx": SRUN_PMIX | {"SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_STEP_NODELIST": "n07"},
        "horovodrun": HOROVODRUN | {"HOROVOD_LOCAL_SIZE": "4", "HOROVOD_CROSS_SIZE": "1"},
    },
)
def test_ranks_of_one_host_meet_where_it_shows_whose_processes_they_are(
    environ: dict[str, str],
) -> None:
    me = discover(environ)
    assert isinstance(me.rendezvous_method, OnThisHost) and me.on_one_host and me.secret is None
    assert discover(environ | {"HVDLITE_SECRET": SECRET.hex()}).secret == SECRET
    # What the ranks have in common leads there, and what tells jobs apart keeps them apart.
    other = {
        name: "0"
        for name in environ
        if name.endswith(("RANK", "PROCID", "LOCALID")) and name != "NODE_RANK"
    }
    assert (
        discover(environ | other).rank == 0
        and discover(environ | other).rendezvous_method == me.rendezvous_method
    )
    for name in (
        "TORCHELASTIC_RESTART_COUNT MASTER_PORT SLURM_STEP_ID HOROVOD_GLOO_RENDEZVOUS_PORT"
    ).split():
        if name in environ:
            assert discover(environ | {name: "77"}).rendezvous_method != me.rendezvous_method


@cases(
    "environ, size",
    {
        "uneven": (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "3,1"}, 3),
        "repeated": (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "2,1(x2)"}, 2),
        "not told": (SRUN | {"SLURM_STEP_TASKS_PER_NODE": ""}, None),
    },
)
def test_the_local_size_is_that_of_the_ranks_node(
    environ: dict[str, str], size: int | None
) -> None:
    assert discover(environ).local_size == size


def test_ranks_know_when_they_share_one_host() -> None:
    assert not discover(MPICH).on_one_host
    assert discover(MPICH | {"MPI_LOCALNRANKS": "4"}).on_one_host
    assert not discover({k: v for k, v in MPICH.items() if not k.startswith("MPI_")}).on_one_host


@cases(
    "environ",
    {
        "trap 1: the body of an sbatch script": variables(
            "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=3"
        ),
        "trap 1: the shell of salloc": {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "3"},
        "trap 1: the shell of salloc in a step of its own": variables(
            "SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=3"
        ),
        "srun -n 1": variables(
            "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=3"
        ),
        "mpirun -np 1": variables("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0"),
        "names that anything may use": {"RANK": "captain", "WORLD_SIZE": "huge"},
        "a world of one": {"RANK": "0", "WORLD_SIZE": "1"},
        "a rank of nothing": {"RANK": "3"},
        "a program that will spawn": {"WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "1"},
        "Horovod's knobs": {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_FUSION_THRESHOLD": "0"},
        "settings of launchers": variables("OMPI_MCA_btl=self PMIX_SERVER_URI4=x SLURM_CONF=y"),
    },
)
def test_what_is_really_alone_is_alone(environ: Mapping[str, str]) -> None:
    me = discover(environ)
    assert (me.rank, me.size, me.rendezvous_method) == (0, 1, None)


def test_trap_4_srun_of_fewer_tasks_than_the_allocation_has() -> None:
    two = variables(
        "SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_LOCALID=0"
    )
    assert discover(SRUN | two).size == 2
    # Whatever the allocation has:
    assert discover(SRUN | two | {"SLURM_NTASKS": "3"}).size == 2


@cases(
    "environ, missing",
    {
        "trap 7: PMI": ({"PMI_RANK": "0"}, "PMI_SIZE"),
        "PMI's size": ({"PMI_SIZE": "2"}, "PMI_RANK"),
        "Open MPI": ({"OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_SIZE"),
        "Open MPI's size": ({"OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK"),
        "MVAPICH": ({"MV2_COMM_WORLD_RANK": "0"}, "MV2_COMM_WORLD_SIZE"),
        "jsrun": ({"JSM_NAMESPACE_RANK": "0"}, "JSM_NAMESPACE_SIZE"),
        "horovodrun": ({"HOROVOD_RANK": "0"}, "HOROVOD_SIZE"),
        "horovodrun's local rank": ({"HOROVOD_LOCAL_RANK": "0"}, "HOROVOD_RANK, HOROVOD_SIZE"),
        "torchrun": ({"RANK": "0", "MASTER_ADDR": "h"}, "WORLD_SIZE, MASTER_PORT"),
        "by hand": (
            variables("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1"),
            "MASTER_ADDR, MASTER_PORT",
        ),
        "torchrun's rank": ({"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}, "RANK, MASTER_ADDR"),
        "srun": ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "0"}, "SLURM_STEP_NUM_TASKS"),
    },
)
def test_what_is_half_set_is_an_error(environ: dict[str, str], missing: str) -> None:
    given = ", ".join(name for name in environ if name != "LOCAL_RANK")
    with pytest.raises(
        ValueError, match=f"{given} set, but {missing}.* not: .* all of them or none"
    ):
        discover(environ)
    assert discover(environ | {"HVDLITE_ALLOW_SINGLETON": "1"}) == Identity()


@cases(
    "environ, text",
    {
        "rank": (MPICH | {"PMI_RANK": "4"}, "PMI_RANK=4 has to be below PMI_SIZE=4"),
        "no number": (MPICH | {"PMI_SIZE": "-4"}, "PMI_SIZE='-4' is not allowed"),
        "local size": (MPICH | {"MPI_LOCALNRANKS": "5"}, "MPI_LOCALNRANKS=5 exceeds PMI_SIZE=4"),
        "tasks per node": (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "3(x2)"}, "makes 6 processes"),
        "local id": (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "1,3"}, "SLURM_LOCALID=1 do not fit"),
        "nodes": (SRUN | {"SLURM_STEP_NODELIST": ""}, "SLURM_STEP_NODELIST is not set"),
        "bad nodes": (SRUN | {"SLURM_STEP_NODELIST": "n[1"}, "Invalid node list"),
        "PMIx": (SRUN_PMIX | {"PMIX_RANK": "0"}, "PMIX_RANK=0, but SLURM_PROCID=1"),
        "prterun in Slurm": (
            SRUN | {"PMIX_RANK": "1", "PMIX_NAMESPACE": "prte"},
            "nothing says how many",
        ),
        "prterun": ({"PMIX_RANK": "1"}, "nothing says how many processes there are"),
        "port": (TORCHRUN | {"MASTER_PORT": "x"}, "MASTER_ADDR:MASTER_PORT=.* is not allowed"),
        "horovodrun": (
            HOROVODRUN | {"HOROVOD_GLOO_RENDEZVOUS_PORT": ""},
            "HOROVOD_SIZE=4, but HOROVOD_GLOO_RENDEZVOUS_PORT not set",
        ),
    },
)
def test_what_a_launcher_left_has_to_fit_together(environ: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        discover(environ)


@cases(
    "environ, both",
    {
        "two mpiruns": (
            OPEN_MPI_4 | MPICH | {"PMI_SIZE": "3"},
            ("OMPI_COMM_WORLD_SIZE=4", "PMI_SIZE=3"),
        ),
        "horovodrun and hvdliterun": (HOROVODRUN | OURS, ("HVDLITE_SIZE=6", "HOROVOD_SIZE=4")),
        "jsrun": (OPEN_MPI_4 | JSRUN | {"JSM_NAMESPACE_SIZE": "8"}, ("JSM_NAMESPACE_SIZE=8",)),
    },
)
def test_sources_that_speak_of_the_same_processes_have_to_agree(
    environ: dict[str, str], both: tuple[str, ...]
) -> None:
    with pytest.raises(RuntimeError) as error:
        discover(environ)
    assert all(text in str(error.value) for text in both)


@cases(
    "environ",
    {
        # `srun --pty bash` with PMI-2, and mpirun in that shell.
        "an outer process that was alone": OPEN_MPI_4 | {"PMI_RANK": "0", "PMI_SIZE": "1"},
        "half of an outer one's variables": OPEN_MPI_4 | {"PMI_RANK": "0"},
        "torchrun under mpirun": TORCHRUN | MPICH | {"PMI_SIZE": "2"},
        "hvdliterun under mpirun": OURS | MPICH,
        "a batch script's own names": OPEN_MPI_4 | {"RANK": "7", "WORLD_SIZE": "9"},
    },
)
def test_what_an_outer_launcher_left_does_no_harm(environ: dict[str, str]) -> None:
    assert discover(environ).size in (4, 6)


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        (InitArguments(rank=1), ValueError, r"init\(rank=1, size=None\) is not allowed: give both"),
        (InitArguments(size=2), ValueError, "give both, or neither"),
        (InitArguments(2, 2), ValueError, "rank has to be from 0 to size - 1"),
        (InitArguments(-1, 2), ValueError, "rank has to be from 0 to size - 1"),
        (
            InitArguments("0", 2),
            TypeError,
            r"init\(rank='0'\) is not allowed: expected a whole "
            r"number",
        ),  # type: ignore[arg-type]
        (InitArguments(0, True), TypeError, r"init\(size=True\)"),
        (
            InitArguments(0, 2),
            ValueError,
            r"init\(size=2\) needs a place to meet: pass rendezvous='host:port'",
        ),
        (InitArguments(0, 2, "h"), ValueError, "rendezvous='h' is not allowed: expected host:port"),
        (
            InitArguments(0, 2, "h:1"),
            ValueError,
            r"needs a secret: pass secret=secrets.token_hex\(32\)",
        ),
        (InitArguments(0, 2, "h:1", "abc"), ValueError, "64 hex digits"),
        (
            InitArguments(0, 2, "h:1", b"abc"),
            ValueError,
            r"init\(secret=...\) has to have 32 bytes",
        ),
    ],
)
def test_wrong_arguments_are_explained(
    asked: InitArguments, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as raised:
        discover({}, asked)
    assert "abc" not in str(raised.value)


def test_arguments_may_be_completed_by_the_environment() -> None:
    given = {"HVDLITE_RENDEZVOUS": "h:1", "HVDLITE_SECRET": SECRET.hex()}
    assert discover(given, InitArguments(1, 2)).rendezvous_method == AtStore((("h", 1),))
    assert discover(
        MPICH, InitArguments(rendezvous="h:1", secret=SECRET)
    ).rendezvous_method == AtStore((("h", 1),), may_open=True)
    assert discover({}, InitArguments(0, 1)) == Identity(launcher="the arguments of init()")


def test_launch_imports_neither_the_native_core_nor_a_framework() -> None:
    code = (
        "import sys, hvdlite.launch.cli, hvdlite.launch.direct, hvdlite.launch.environment\n"
        "bad = {'hvdlite._core', 'numpy', 'torch', 'tensorflow', 'jax', 'keras'} & "
        "set(sys.modules)\n"
        "sys.exit(', '.join(bad) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=within(30))
