"""A real Slurm: srun with and without hvdliterun, and what an allocation looks like to programs
that are no ranks."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
import slurm
from launched import PATIENT, ROOT, WAIT, last_line, prefixed
from slurm_jobs import ALLOCATION, HVDLITERUN, PYTHON, Slurm

# The nodes are one machine and pretend to be two.
TRAIN = """
import os
if "SLURM_STEP_ID" in os.environ:
    os.environ["HVDLITE_HOST_ID"] = os.environ["SLURMD_NODENAME"]
import numpy as np
import hvdlite as hvd
hvd.init()
total = hvd.allreduce(np.arange(3.0) + hvd.rank(), op=hvd.Sum)
print(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(),
      hvd.cross_size(), total.tolist())
"""
READY = "import os\nopen('ready.' + os.environ['SLURM_PROCID'], 'w').close()\n" + WAIT

_WHY_NOT = slurm.why_not()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=f"no Slurm: {_WHY_NOT}")


PLACES = [
    "0 3 0 2 0 2 [3.0, 6.0, 9.0]",
    "1 3 1 2 0 1 [3.0, 6.0, 9.0]",
    "2 3 0 1 1 2 [3.0, 6.0, 9.0]",
]


# --- without hvdliterun


def test_srun_python(cluster_: Slurm) -> None:
    done = cluster_.end_well("srun", "-N2", "-n3", PYTHON, cluster_.job.script(TRAIN))
    assert sorted(done.stdout.decode().splitlines()) == PLACES
    assert done.stderr.count(b"srun cannot give the ranks a secret") == 1, done.stderr


def test_srun_with_the_process_management_of_mpi(cluster_: Slurm) -> None:
    """PMI_RANK and PMI_SIZE are Slurm's then, and no MPI is needed."""
    done = cluster_.end_well("srun", "--mpi=pmi2", "-N2", "-n3", PYTHON, cluster_.job.script(TRAIN))
    assert sorted(done.stdout.decode().splitlines()) == PLACES


def test_srun_in_an_allocation_with_fewer_ranks_than_tasks(cluster_: Slurm) -> None:
    done = cluster_.allocated("srun", "-N1", "-n2", PYTHON, cluster_.job.script(TRAIN))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.decode().splitlines()) == [
        "0 2 0 2 0 1 [1.0, 3.0, 5.0]",
        "1 2 1 2 0 1 [1.0, 3.0, 5.0]",
    ]


def test_two_steps_of_a_job_do_not_meet_one_another(cluster_: Slurm) -> None:
    step = f"srun --exact -N1 -n1 {PYTHON} {cluster_.job.script(TRAIN)}"
    done = cluster_.allocated("bash", "-c", f"{step} & {step} & wait")
    assert done.stdout.decode().splitlines() == ["0 1 0 1 0 1 [0.0, 1.0, 2.0]"] * 2, done.stderr


def test_the_body_of_a_batch_script_is_no_rank(cluster_: Slurm) -> None:
    """Trap 1: it has SLURM_PROCID=0 and SLURM_NTASKS=3, and the two others would never come."""
    script = cluster_.job.script(TRAIN)
    body = f"#!/bin/bash\nenv > environment\n{PYTHON} {script}\nsrun {PYTHON} {script}\n"
    (cluster_.job.directory / "batch.sh").write_text(body)
    done = cluster_.run("sbatch", "--wait", "-N2", "-n3", "--output=out", "--error=err", "batch.sh")
    out = (cluster_.job.directory / "out").read_text()
    assert done.returncode == 0, (cluster_.job.directory / "err").read_text()
    environment = (cluster_.job.directory / "environment").read_text()
    assert "SLURM_PROCID=0\n" in environment and "SLURM_NTASKS=3\n" in environment
    first, *rest = out.splitlines()
    assert first == "0 1 0 1 0 1 [0.0, 1.0, 2.0]"
    assert sorted(rest) == PLACES


def test_an_unrelated_python_in_an_allocation_is_alone(cluster_: Slurm) -> None:
    done = cluster_.allocated(PYTHON, cluster_.job.script(TRAIN))
    assert done.stdout == b"0 1 0 1 0 1 [0.0, 1.0, 2.0]\n", done.stderr


# --- with hvdliterun


def test_hvdliterun_in_an_allocation_uses_all_of_it(cluster_: Slurm) -> None:
    done = cluster_.allocated(*HVDLITERUN, "--verbose", PYTHON, cluster_.job.script(TRAIN))
    assert done.returncode == 0, done.stderr
    assert [prefixed(done.stdout, rank) for rank in range(3)] == [[place] for place in PLACES]
    assert b"runs srun --ntasks=3" in done.stderr


def test_hvdliterun_in_a_batch_script(cluster_: Slurm) -> None:
    command = " ".join([*HVDLITERUN, "-np", "2", PYTHON, cluster_.job.script(TRAIN)])
    (cluster_.job.directory / "batch.sh").write_text(f"#!/bin/bash\n{command}\n")
    done = cluster_.run("sbatch", "--wait", "-N1", "-n3", "--output=out", "batch.sh")
    out = (cluster_.job.directory / "out").read_bytes()
    assert done.returncode == 0, out
    assert prefixed(out, 1) == ["1 2 1 2 0 1 [1.0, 3.0, 5.0]"]


def test_the_ten_lines_of_the_page(cluster_: Slurm) -> None:
    """docs/guides/roads.md, Slurm in ten lines: as they stand there."""
    page = (ROOT / "docs" / "guides" / "roads.md").read_text()
    lines = re.search(r'^```sh title="train.sh"\n(.*?)^```$', page, re.M | re.S)
    assert lines is not None and len(lines[1].splitlines()) == 10
    folder = cluster_.job.directory
    (folder / "train.sh").write_text(lines[1])
    (folder / "train.py").write_text(TRAIN)
    # What an environment's activate does: it names programs.
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").write_text(f'export PATH="{programs}:$PATH"\n')
    for name, command in {"hvdliterun": " ".join(HVDLITERUN), "python": PYTHON}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (programs / name).chmod(0o755)
    done = cluster_.run("sbatch", "--wait", "train.sh")
    (log,) = folder.glob("train.*.log")
    assert done.returncode == 0, log.read_bytes()
    said = [prefixed(log.read_bytes(), rank) for rank in range(4)]
    total = "[6.0, 10.0, 14.0]"
    assert said == [[f"{r} 4 {r % 2} 2 {r // 2} 2 {total}"] for r in range(4)], log.read_bytes()


def test_hvdliterun_in_a_shell_that_is_a_step_itself(cluster_: Slurm) -> None:
    # Without --overlap the step would wait for the processors of the step it is in.
    inner = [*HVDLITERUN, "-np", "2", PYTHON, cluster_.job.script(TRAIN)]
    done = cluster_.allocated("srun", "-N1", "-n1", "--exact", *inner)
    assert done.returncode == 0, done.stderr
    assert prefixed(done.stdout, 1)[0].startswith("1 2 ")


def test_output_is_told_apart_byte_for_byte(cluster_: Slurm) -> None:
    script = cluster_.job.script(
        "import os\nrank = int(os.environ['SLURM_PROCID'])\n"
        "text = bytes(range(256)) * 40 + b'1: [0] \\n' + b'x' * 5000 + b'\\n' + b'y' * 1024 + "
        "b'\\n' + b'z' * 1023 + b'\\n'\n"
        "os.write(1, text if rank == 1 else b'hello\\n')\nos.write(2, b'oops %d\\n' % rank)\n"
    )
    done = cluster_.allocated(*HVDLITERUN, "--output-filename", "logs", PYTHON, script)
    assert done.returncode == 0
    logs = cluster_.job.directory / "logs"
    expected = (
        bytes(range(256)) * 40
        + b"1: [0] \n"
        + b"x" * 5000
        + b"\n"
        + b"y" * 1024
        + b"\n"
        + b"z" * 1023
        + b"\n"
    )
    assert (logs / "rank.1" / "stdout").read_bytes() == expected
    assert (logs / "rank.2" / "stdout").read_bytes() == b"hello\n"
    assert [(logs / f"rank.{rank}" / "stderr").read_text() for rank in range(3)] == [
        f"oops {r}\n" for r in range(3)
    ]
    assert sorted(done.stderr.splitlines()) == [
        f"[{rank}]<stderr>:oops {rank}".encode() for rank in range(3)
    ]


def test_the_secret_is_in_no_command_line(cluster_: Slurm) -> None:
    launcher = cluster_.start_ready(
        "import os\nopen('secret', 'w').write(os.environ['HVDLITE_SECRET'])\n" + READY
    )
    secret = (cluster_.job.directory / "secret").read_bytes()
    command_lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in cluster_.job.pids()]
    assert len(command_lines) >= 6 and len(secret) == 64
    assert not any(secret in line for line in command_lines)
    os.kill(launcher, signal.SIGTERM)
    cluster_.leave()


def test_with_a_file_for_the_secret_the_environment_has_none(cluster_: Slurm) -> None:
    path = cluster_.job.directory / "file"
    path.write_text("ab" * 32)
    path.chmod(0o600)
    script = cluster_.job.script("import os\nassert 'HVDLITE_SECRET' not in os.environ\n" + TRAIN)
    done = cluster_.allocated(*HVDLITERUN, "--secret-file", str(path), PYTHON, script)
    assert done.returncode == 0, done.stderr
    assert [prefixed(done.stdout, rank) for rank in range(3)] == [[place] for place in PLACES]


def test_a_rank_that_fails_ends_all(cluster_: Slurm) -> None:
    script = cluster_.job.script(
        "import os, sys\nif os.environ['SLURM_PROCID'] == '2':\n"
        "    print('ValueError: so bad', file=sys.stderr)\n    sys.exit(3)\n" + WAIT
    )
    done = cluster_.allocated(*HVDLITERUN, PYTHON, script)
    assert done.returncode == 3
    told = (
        r"hvdliterun: rank 2 on \S+ exited with code 3: ValueError: so bad\. All other ranks "
        r"have ended, too\."
    )
    assert re.fullmatch(told, last_line(done.stderr))


def test_a_killed_rank_ends_all(cluster_: Slurm) -> None:
    script = cluster_.job.script(
        "import os\nif os.environ['SLURM_PROCID'] == '1':\n    os.kill(os.getpid(), 9)\n" + WAIT
    )
    done = cluster_.allocated(*HVDLITERUN, PYTHON, script)
    assert done.returncode == 137
    assert re.search(r"rank 1 on \S+ was killed by SIGKILL", last_line(done.stderr))


SAVE = """
import signal, sys, time
def save(*_):
    print('saving', flush=True)
    time.sleep(0.8)  # span: srun itself would end ranks sooner
    print('saved', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_to_the_launcher_lets_ranks_save_and_ends_them(
    cluster_: Slurm, number: signal.Signals
) -> None:
    """srun itself would answer it with SIGKILL for all ranks."""
    launcher = cluster_.start_ready(SAVE + READY, "--grace-seconds", PATIENT)
    os.kill(launcher, number)
    cluster_.job.wait_for_files(["over"])
    assert cluster_.ranks() == []
    out, err = cluster_.leave()
    assert cluster_.process.returncode == 128 + number
    assert last_line(err) == f"hvdliterun: ended by {number.name}; all ranks were ended."
    assert [prefixed(out, rank) for rank in range(3)] == [["saving", "saved"]] * 3
    assert cluster_.job.pids() == []


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace_period(cluster_: Slurm) -> None:
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    launcher = cluster_.start_ready(deaf + READY, "--grace-seconds", "0.7")
    asked = time.monotonic()
    os.kill(launcher, signal.SIGTERM)
    cluster_.job.wait_for_files(["over"])
    assert time.monotonic() - asked >= 0.7
    cluster_.expect_no_ranks(3.0)  # not srun has seen them end: it was killed
    cluster_.leave()
    assert cluster_.process.returncode == 143


def test_user_signals_are_passed_on(cluster_: Slurm) -> None:
    handler = (
        "import signal\ndef write(number, _): open('got.' + os.environ['SLURM_PROCID'], "
        "'w').close()\n"
    )
    script = handler + "signal.signal(signal.SIGUSR1, write)\n" + READY
    launcher = cluster_.start_ready("import os\n" + script)
    os.kill(launcher, signal.SIGUSR1)
    cluster_.job.wait_for_files([f"got.{rank}" for rank in range(3)])
    os.kill(launcher, signal.SIGTERM)
    cluster_.leave()


DEAF = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n" + READY


def test_kill_9_of_the_launcher_leaves_no_rank(cluster_: Slurm) -> None:
    launcher = cluster_.start_ready(DEAF)
    assert len(cluster_.ranks()) == 3
    os.kill(launcher, signal.SIGKILL)
    cluster_.expect_no_ranks(5.0)  # not KillWait
    cluster_.leave()


def test_kill_9_of_srun_ends_the_ranks(cluster_: Slurm) -> None:
    cluster_.start_ready(DEAF, "--grace-seconds", "0.5")
    for pid in cluster_.pids("srun"):
        os.kill(pid, signal.SIGKILL)
    cluster_.job.wait_for_files(["over"])
    cluster_.expect_no_ranks(3.0)  # scancel only asks for it
    _, err = cluster_.leave()
    assert cluster_.process.returncode == 137
    assert last_line(err) == "hvdliterun: srun was killed by SIGKILL. All ranks have ended."


def test_scancel_of_the_job_lets_ranks_save(cluster_: Slurm) -> None:
    command = " ".join([*HVDLITERUN, PYTHON, cluster_.job.script(SAVE + READY)])
    (cluster_.job.directory / "batch.sh").write_text(f"#!/bin/bash\nexec {command}\n")
    cluster_.process = cluster_.start(
        "sbatch", "--wait", "--parsable", "-N2", "-n3", "--output=out", "batch.sh"
    )
    assert cluster_.process.stdout is not None
    number = cluster_.process.stdout.readline().decode().strip()
    cluster_.job.wait_ready(3)
    cluster_.run("scancel", number)
    cluster_.process.communicate()
    assert cluster_.job.wait_until_gone(10.0) == []
    out = (cluster_.job.directory / "out").read_bytes()
    assert [prefixed(out, rank) for rank in range(3)] == [["saving", "saved"]] * 3


def test_what_srun_refuses_is_told(cluster_: Slurm) -> None:
    done = cluster_.allocated(*HVDLITERUN, "-np", "3", "-H", "no-such-node:3", "--srun", "true")
    assert done.returncode != 0
    assert b"srun: error: Unable to create step" in done.stderr
    assert "srun exited with code 1; its messages are above" in last_line(done.stderr)


# --- with an MPI


def test_mpirun_in_an_allocation(cluster_: Slurm, mpirun: str) -> None:
    """Traps 2 and 3: mpirun reaches the nodes through Slurm, so that its ranks have the Slurm
    numbers of its daemons."""
    script = cluster_.job.script(TRAIN + "print('step of', os.environ['SLURM_STEP_NUM_TASKS'])\n")
    # The nodes are hosts, so MPI is asked about; mpi4py has to load that of this mpirun, not the
    # environment's.
    prefix = Path(mpirun).parents[1]
    abi = "mpich" if (prefix / "bin/hydra_pmi_proxy").exists() else "openmpi"
    library = [f"MPI4PY_MPIABI={abi}", f"LD_LIBRARY_PATH={prefix / 'lib'}"]
    command = ["env", f"HVDLITE_MPIRUN={mpirun}", *library, *HVDLITERUN, "--mpi", PYTHON, script]
    done = cluster_.allocated(*command)
    assert done.returncode == 0, done.stderr
    assert [prefixed(done.stdout, rank) for rank in range(3)] == [
        [place, "step of 2"] for place in PLACES
    ]


def test_kill_9_of_the_launcher_ends_mpiruns_ranks_on_other_nodes(
    cluster_: Slurm, mpirun: str
) -> None:
    variable = (
        "PMI_RANK" if (Path(mpirun).parent / "hydra_pmi_proxy").exists() else "OMPI_COMM_WORLD_RANK"
    )
    script = cluster_.job.script(DEAF.replace("SLURM_PROCID", variable))
    command = ["env", f"HVDLITE_MPIRUN={mpirun}", *HVDLITERUN, "--mpi", PYTHON, script]
    cluster_.process = cluster_.start(*ALLOCATION, *command)
    cluster_.job.wait_ready(3)
    (launcher,) = cluster_.pids(*HVDLITERUN)
    os.kill(launcher, signal.SIGKILL)
    cluster_.process.communicate()
    assert cluster_.job.wait_until_gone(10.0) == []
