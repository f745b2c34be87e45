"""Which rank a process is, and when it must refuse to believe that it is alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from hvdlite.launch import secret as job_secret
from hvdlite.launch.environment import Identity, discover, parse_address

SECRET = bytes(range(32))
OURS = {
    "HVDLITE_RANK": "5",
    "HVDLITE_SIZE": "6",
    "HVDLITE_LOCAL_RANK": "1",
    "HVDLITE_LOCAL_SIZE": "2",
    "HVDLITE_CROSS_RANK": "2",
    "HVDLITE_CROSS_SIZE": "3",
    "HVDLITE_RENDEZVOUS": "127.0.0.1:4000",
    "HVDLITE_SECRET": SECRET.hex(),
}
ALONE = {name: "1" if name.endswith("SIZE") else "0" for name in OURS if name.endswith(("RANK", "SIZE"))}


def test_nothing_set_is_a_single_process() -> None:
    assert discover({"PATH": "/bin"}) == Identity(0, 1, 0, 1, 0, 1, None, None)


def test_our_variables_say_it_all() -> None:
    assert discover(OURS) == Identity(5, 6, 1, 2, 2, 3, ("127.0.0.1", 4000), SECRET)


def test_a_single_rank_needs_no_meeting_point() -> None:
    assert discover(ALONE) == Identity()


def test_the_secret_is_not_shown() -> None:
    shown = repr(discover(OURS))
    assert SECRET.hex() not in shown and repr(SECRET) not in shown


@pytest.mark.parametrize("name", [n for n in OURS if n.endswith(("RANK", "SIZE"))])
def test_a_half_set_environment_is_an_error_that_names_what_is_missing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} not: a process needs all of them or none"):
        discover({k: v for k, v in OURS.items() if k != name})
    with pytest.raises(ValueError, match="needs all of them or none"):
        discover({name: "1"})


def test_a_meeting_point_alone_is_half_set() -> None:
    with pytest.raises(ValueError, match="HVDLITE_RENDEZVOUS set, but HVDLITE_RANK"):
        discover({"HVDLITE_RENDEZVOUS": "h:1"})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"HVDLITE_RANK": "x"}, r"HVDLITE_RANK='x' is not allowed: expected a whole number"),
        ({"HVDLITE_RANK": "-1"}, r"HVDLITE_RANK='-1' is not allowed"),
        ({"HVDLITE_RANK": "6"}, r"HVDLITE_RANK=6 has to be below HVDLITE_SIZE=6"),
        ({"HVDLITE_LOCAL_RANK": "2"}, r"HVDLITE_LOCAL_RANK=2 has to be below HVDLITE_LOCAL_SIZE=2"),
        ({"HVDLITE_CROSS_RANK": "3"}, r"HVDLITE_CROSS_RANK=3 has to be below HVDLITE_CROSS_SIZE=3"),
        ({"HVDLITE_LOCAL_SIZE": "7"}, r"exceed HVDLITE_SIZE=6"),
        ({"HVDLITE_RENDEZVOUS": ""}, r"HVDLITE_SIZE=6, but HVDLITE_RENDEZVOUS=host:port is not set"),
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


def test_secrets_differ() -> None:
    assert len({job_secret.create() for _ in range(8)}) == 8


# --- other launchers

FOREIGN = [
    pytest.param({"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}, "horovodrun", id="horovodrun"),
    pytest.param(
        {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "1"},
        "torchrun",
        id="torchrun",
    ),
    pytest.param({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, "Open MPI", id="openmpi"),
    pytest.param({"PMI_RANK": "1", "PMI_SIZE": "2", "SLURM_STEP_NUM_TASKS": "1"}, "mpiexec", id="mpich in slurm"),
    pytest.param({"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3"}, "srun", id="srun"),
    pytest.param(
        {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3", "PMIX_RANK": "1"},
        "srun",
        id="srun with pmix",
    ),
]


@pytest.mark.parametrize(("environ", "launcher"), FOREIGN)
def test_ranks_of_another_launcher_do_not_train_alone(environ: dict[str, str], launcher: str) -> None:
    with pytest.raises(RuntimeError, match=f"{launcher}.* processes .*HVDLITE_ALLOW_SINGLETON=1"):
        discover(environ)
    with pytest.raises(RuntimeError, match="HVDLITE_SIZE=1"):
        discover(environ | ALONE)


@pytest.mark.parametrize(("environ", "launcher"), FOREIGN)
def test_who_wants_to_be_alone_may(environ: dict[str, str], launcher: str) -> None:
    assert discover(environ | {"HVDLITE_ALLOW_SINGLETON": "1"}) == Identity()


@pytest.mark.parametrize(("environ", "launcher"), FOREIGN)
def test_hvdliterun_counts_more_than_any_other_launcher(environ: dict[str, str], launcher: str) -> None:
    assert discover(environ | OURS).rank == 5


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({"SLURM_PROCID": "0", "SLURM_NTASKS": "3"}, id="the body of an sbatch script"),
        pytest.param({"SLURM_NTASKS": "3"}, id="the shell of salloc"),
        pytest.param(
            {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "3"},
            id="srun -n 1",
        ),
        pytest.param({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, id="mpirun -np 1"),
        pytest.param({"RANK": "3", "WORLD_SIZE": "4"}, id="names that anything may use"),
    ],
)
def test_what_is_really_alone_is_alone(environ: Mapping[str, str]) -> None:
    assert discover(environ) == Identity()


def test_launch_imports_neither_the_native_core_nor_a_framework() -> None:
    code = (
        "import sys, hvdlite.launch.cli, hvdlite.launch.job, hvdlite.launch.environment\n"
        "bad = {'hvdlite._core', 'numpy', 'torch', 'tensorflow', 'jax', 'keras'} & set(sys.modules)\n"
        "sys.exit(', '.join(bad) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
