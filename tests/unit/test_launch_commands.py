"""The command lines for other launchers, as a table. What these launchers make of them is tested in
tests/multiprocess."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

import pytest
from cases import cases

from hvdlite.launch.hosts import Host
from hvdlite.launch.spawn import other_launchers
from hvdlite.launch.spawn.other_launchers import (
    LauncherRequest,
    MpiFamily,
    MpirunVersion,
    forwardable,
)

OPEN_MPI_4 = MpirunVersion(MpiFamily.OPEN_MPI, 4)
OPEN_MPI_5 = MpirunVersion(MpiFamily.OPEN_MPI, 5)
MPICH = MpirunVersion(MpiFamily.MPICH, 5)
INTEL = MpirunVersion(MpiFamily.INTEL, 2021)
TWO = [Host("a", 2), Host("b", 2)]
ONE = [Host("localhost", 2)]
TRAIN = ["python", "train.py"]
SHELL = shlex.join(other_launchers.telling_shell("MARK"))


def _everything(dash: str, *interfaces: str) -> LauncherRequest:
    """All that can be asked for, of four ranks on two hosts. `dash`: before the flags."""
    extra, binding = [f"{dash}x-y"], [f"{dash}bind-to", "core"]
    return LauncherRequest(
        TWO, 4, TRAIN, ["A", "B"], interfaces, 2222, "/k", True, extra, binding, True
    )  # fmt: skip


# --- whose mpirun


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n",
            OPEN_MPI_5,
        ),
        ("mpirun (Open MPI) 4.1.6\n", OPEN_MPI_4),
        ("mpirun.openmpi (OpenRTE) 4.1.4\n", OPEN_MPI_4),
        ("mpirun (IBM Spectrum MPI) 10.4.0.3rtm2\n", OPEN_MPI_4),
        (
            "HYDRA build details:\n    Version:                                 5.0.2\n    "
            "CC: cc\n",
            MPICH,
        ),
        (
            "Intel(R) MPI Library for Linux* OS, Version 2021.19.0 Build 20260929 (id: 1821d9b)\n"
            "Copyright 2003-2026, Intel Corporation.\n",
            INTEL,
        ),
    ],
)
def test_the_family_is_read_from_what_mpirun_says_of_itself(
    answer: str, expected: MpirunVersion
) -> None:
    assert other_launchers.identify_mpirun(answer) == expected


@pytest.mark.parametrize("answer", ["", "slurm 22.05.8", "mpirun: LAM/MPI"])
def test_another_mpirun_is_an_error_that_says_what_to_do(answer: str) -> None:
    with pytest.raises(ValueError, match=f"says '{answer or 'nothing'}'.*HVDLITE_MPIRUN"):
        other_launchers.identify_mpirun(answer)


# --- mpirun

COMMANDS = {
    "open mpi 4": (
        OPEN_MPI_4,
        LauncherRequest(ONE, 2, TRAIN),
        "mpirun --tag-output -np 2 -H localhost:2 --bind-to none --map-by slot python train.py",
    ),
    "open mpi 5": (
        OPEN_MPI_5,
        LauncherRequest(ONE, 2, TRAIN),
        "mpirun --output tag -np 2 -H localhost:2 --bind-to none --map-by slot python train.py",
    ),
    "mpich": (
        MPICH,
        LauncherRequest(ONE, 2, TRAIN),
        "mpirun -prepend-pattern MARK%r: -print-all-exitcodes -np 2 -hosts localhost -ppn 2 "
        f"{SHELL} python train.py",
    ),
    "intel": (
        INTEL,
        LauncherRequest([Host("a", 2), Host("b", 1)], 3, TRAIN),
        "mpirun -prepend-pattern MARK%r: -print-all-exitcodes -np 3 -hosts a:2,b:1 "
        f"{SHELL} python train.py",
    ),
    "open mpi 4, everything": (
        OPEN_MPI_4,
        _everything("--", "eth0", "eth1"),
        "mpirun --allow-run-as-root --tag-output -np 4 -H a:2,b:2 --bind-to core --mca pml ob1 "
        "--mca btl self,vader,tcp --mca plm_rsh_args '-p 2222 -i /k' --mca btl_tcp_if_include "
        "eth0,eth1 --mca oob_tcp_if_include eth0,eth1 -x A -x B --x-y python train.py",
    ),
    "open mpi 5, everything": (
        OPEN_MPI_5,
        _everything("--", "eth0"),
        "mpirun --allow-run-as-root --output tag -np 4 -H a:2,b:2 --bind-to core --mca pml ob1 "
        "--mca btl self,sm,tcp --prtemca plm_ssh_args '-p 2222 -i /k' --mca btl_tcp_if_include "
        "eth0 --prtemca prte_if_include eth0 -x A -x B --x-y python train.py",
    ),
    "mpich, everything": (
        MPICH,
        _everything("-", "eth0"),
        "mpirun -prepend-pattern MARK%r: -print-all-exitcodes -np 4 -hosts a:2,b:2 -iface eth0 "
        f"-bind-to core -genvlist A,B -x-y {SHELL} python train.py",
    ),
    "open mpi 4, many hosts": (
        OPEN_MPI_4,
        LauncherRequest([Host(f"n{i}", 1) for i in range(64)], 64, TRAIN),
        f"mpirun --tag-output -np 64 -H {','.join(f'n{i}:1' for i in range(64))} --bind-to none "
        "--map-by slot "
        "--mca plm_rsh_no_tree_spawn 1 --mca plm_rsh_num_concurrent 64 python train.py",
    ),
    "open mpi 5, many hosts": (
        OPEN_MPI_5,
        LauncherRequest([Host(f"n{i}", 1) for i in range(64)], 64, TRAIN),
        f"mpirun --output tag -np 64 -H {','.join(f'n{i}:1' for i in range(64))} --bind-to none "
        "--map-by slot "
        "--prtemca plm_ssh_no_tree_spawn 1 --prtemca plm_ssh_num_concurrent 64 python train.py",
    ),
    "one host needs no interface": (
        OPEN_MPI_5,
        LauncherRequest(ONE, 2, TRAIN, interfaces=["lo"]),
        "mpirun --output tag -np 2 -H localhost:2 --bind-to none --map-by slot python train.py",
    ),
}


@cases("version, request_, expected", COMMANDS)
def test_mpirun(version: MpirunVersion, request_: LauncherRequest, expected: str) -> None:
    assert other_launchers.mpirun_command(
        version, "mpirun", "MARK", "/t", request_
    ).argv == shlex.split(expected)


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        (OPEN_MPI_5, {}, {"PRTE_MCA_prte_local_tmpdir_base": "/t"}),
        (OPEN_MPI_4, {}, {"OMPI_MCA_orte_local_tmpdir_base": "/t"}),
        (
            MPICH,
            {"ssh_port": 22, "ssh_identity_file": "/k"},
            {"HYDRA_LAUNCHER_EXTRA_ARGS": "-p 22 -i /k"},
        ),
        (INTEL, {"ssh_port": 22}, {"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-p 22"}),
        (MPICH, {"tcp_only": True}, {"FI_PROVIDER": "tcp", "UCX_TLS": "tcp,self,sm"}),
    ],
)
def test_what_mpirun_only_takes_from_its_environment(
    version: MpirunVersion, options: dict[str, object], expected: dict[str, str]
) -> None:
    request = LauncherRequest(TWO, 4, TRAIN, **options)  # type: ignore[arg-type]
    assert (
        other_launchers.mpirun_command(version, "mpirun", "MARK", "/t", request).environment
        == expected
    )


SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]


def _under(shell: str, command: str) -> subprocess.CompletedProcess[bytes]:
    """`sh -c command` as rank 3 of Hydra."""
    words = [shell, *other_launchers.telling_shell("<7f3a>")[1:], "sh", "-c", command]
    return subprocess.run(words, env=os.environ | {"PMI_RANK": "3"}, capture_output=True)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("command", "status", "told"),
    [
        ("exit 0", 0, b""),
        ("exit 3", 3, b"<7f3a>1000003:3\n"),
        ("printf unfinished >&2; exit 200", 200, b"unfinished<7f3a>1000003:200\n"),
        ("kill -KILL $$", 137, b"<7f3a>1000003:137\n"),
        ("kill -TERM $$", 143, b"<7f3a>1000003:143\n"),
        # Hydra's signals are for the group. The rank answers, and the shell waits for it.
        ("trap 'exit 4' TERM; kill -TERM $PPID $$", 4, b"<7f3a>1000003:4\n"),
        ("kill -INT $PPID; kill -HUP $PPID; kill -USR1 $PPID; exit 5", 5, b"<7f3a>1000003:5\n"),
    ],
)
def test_the_shell_of_a_rank_tells_how_it_has_ended(
    shell: str, command: str, status: int, told: bytes
) -> None:
    done = _under(shell, command)
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", told)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_of_a_rank_passes_on_what_is_said(shell: str) -> None:
    done = _under(shell, "echo out; echo oops >&2; cat; exec no-such-command")
    assert done.returncode == 127 and done.stdout == b"out\n"
    assert done.stderr.startswith(b"oops\n") and b"no-such-command" in done.stderr


def test_variables_of_a_machine_a_login_or_a_rank_stay_behind() -> None:
    stay = (
        "PWD HOSTNAME SSH_AUTH_SOCK SLURM_PROCID OMPI_COMM_WORLD_RANK PMI_RANK MPI_LOCALRANKID"
    ).split()
    stay += ["HVDLITE_RANK", "HOROVOD_LOCAL_SIZE", "CUDA_VISIBLE_DEVICES", "BASH_FUNC_x%%", "a b"]
    go = ("HVDLITE_RENDEZVOUS HVDLITE_SECRET HOROVOD_CYCLE_TIME PATH PYTHONPATH NCCL_DEBUG").split()
    assert forwardable(dict.fromkeys([*stay, *go], "1")) == sorted(go)


# --- srun and jsrun


@pytest.mark.parametrize(
    ("request_", "environ", "expected"),
    [
        (LauncherRequest([], 3, TRAIN), {}, "python train.py"),
        (
            LauncherRequest(TWO, 4, TRAIN),
            {},
            "--nodes=2 --nodelist=a,b --ntasks-per-node=2 python train.py",
        ),
        (
            LauncherRequest([], 3, TRAIN),
            {"SLURM_CPUS_PER_TASK": "4"},
            "--cpus-per-task=4 python train.py",
        ),
        (LauncherRequest([], 3, TRAIN), {"SLURM_STEP_ID": "0"}, "--overlap python train.py"),
        (
            LauncherRequest([], 3, TRAIN, extra_arguments=["--mpi=pmix"]),
            {},
            "--mpi=pmix python train.py",
        ),
    ],
)
def test_srun(request_: LauncherRequest, environ: dict[str, str], expected: str) -> None:
    always = (
        f"srun --ntasks={request_.processes} --job-name=NAME --kill-on-bad-exit=1 --label "
        "--input=none --export=ALL"
    )
    assert other_launchers.srun_command("NAME", environ, request_).argv == shlex.split(
        f"{always} {expected}"
    )


def test_srun_says_what_it_cannot_place() -> None:
    with pytest.raises(ValueError, match="srun cannot place a:1,b:2"):
        other_launchers.srun_command(
            "NAME", {}, LauncherRequest([Host("a", 1), Host("b", 2)], 3, TRAIN)
        )


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (LauncherRequest(TWO, 4, TRAIN), "--nrs=2 --tasks_per_rs=2"),
        (LauncherRequest(TWO, 2, TRAIN), "--nrs=1 --tasks_per_rs=2"),
        (LauncherRequest([], 3, TRAIN), "--nrs=1 --tasks_per_rs=3"),
    ],
)
def test_jsrun(request_: LauncherRequest, expected: str) -> None:
    line = (
        f"jsrun {expected} --rs_per_host=1 --cpu_per_rs=ALL_CPUS --gpu_per_rs=ALL_GPUS "
        "--exit_on_error=1 --bind=none"
    )
    assert other_launchers.jsrun_command(request_).argv == shlex.split(f"{line} python train.py")
