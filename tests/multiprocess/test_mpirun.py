"""`hvdliterun --mpi` with the mpirun of Open MPI and of MPICH, from their wheels: each in a
directory of its own, as both are called mpirun."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from launched import PATIENT, WAIT, WAIT_FOR, Job, Launcher, ended, last_line, prefixed
from stuck_programs import FAULTS
from terminal import Watched
from waiting import wait_until

PYTHON = sys.executable
RANK = "import os\nrank = int(os.environ.get('OMPI_COMM_WORLD_RANK') or os.environ['PMI_RANK'])\n"
READY = RANK + "open(f'ready.{rank}', 'w').close()\n" + WAIT
TRAIN = """
import numpy as np
import hvdlite as hvd
hvd.init()
total = hvd.allreduce(np.arange(3.0) + hvd.rank(), op=hvd.Sum)
print(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(),
      hvd.cross_size(), total.tolist())
"""


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[str]:
    """The directory for temporary files; nothing may be left there."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    yield str(directory)
    wait_until(lambda: not os.listdir(directory), 5, lambda: os.listdir(directory))


class Mpi(Launcher):
    """hvdliterun with this mpirun."""

    def __init__(self, job: Job, mpirun: str, temporary: str) -> None:
        self.job = job
        self.mpirun = mpirun
        self.variables = {"HVDLITE_MPIRUN": mpirun, "TMPDIR": temporary}

    @property
    def is_open_mpi(self) -> bool:
        return (Path(self.mpirun).parent / "prterun").exists()

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
        return self.job.start("--mpi", *arguments, **self.variables, **extra)

    def start_ready(self, script: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Two ranks that have come to where they wait."""
        process = self.start("-np", "2", *arguments, PYTHON, self.job.script(script))
        self.job.wait_ready(2)
        return process

    def pid(self) -> int:
        """mpirun's."""
        names = {"mpirun", "prterun", "mpiexec.hydra"}
        (pid,) = (
            p for p in self.job.pids() if Path(f"/proc/{p}/comm").read_text().strip() in names
        )
        return pid


@pytest.fixture
def mpi(job: Job, mpirun: str, temporary: str) -> Mpi:
    return Mpi(job, mpirun, temporary)


# --- ranks and output


def test_with_a_file_for_the_secret_the_environment_has_none(mpi: Mpi) -> None:
    path = mpi.job.directory / "secret"
    path.write_text("ab" * 32)
    path.chmod(0o600)
    script = mpi.job.script("import os\nassert 'HVDLITE_SECRET' not in os.environ\n" + TRAIN)
    done = mpi.run("-np", "2", "--secret-file", "secret", PYTHON, script)
    assert done.returncode == 0 and done.stdout.count(b"[1.0, 3.0, 5.0]") == 2, done


def test_ranks_have_mpis_numbers_and_meet_at_the_launchers_store(mpi: Mpi) -> None:
    done = mpi.end_well("-np", "3", PYTHON, mpi.job.script(TRAIN))
    for rank in range(3):
        assert prefixed(done.stdout, rank) == [f"{rank} 3 {rank} 3 0 1 [3.0, 6.0, 9.0]"]


def test_the_monitor_shows_mpis_ranks(mpi: Mpi) -> None:
    script = mpi.job.script(
        "import time, numpy as np, hvdlite as hvd\nhvd.init()\n"
        # span: a step
        "while True:\n    hvd.allreduce(np.ones(3), name='x')\n    time.sleep(0.02)\n"
    )
    shown = Watched(mpi.job, "--mpi", "-np", "2", "--monitor", PYTHON, script, **mpi.variables)
    shown.watch(r"(?m)^ +0  localhost +\d.*\n +1  localhost +\d.*allreduce.x$")
    shown.process.send_signal(signal.SIGINT)
    assert "steps/s" not in shown.watch()
    assert shown.process.returncode == 130


def test_a_stall_leaves_a_bundle_of_mpis_ranks(mpi: Mpi) -> None:
    sleeps, dumps = FAULTS[0], mpi.job.directory / "dumps"
    script = str(sleeps.write(mpi.job.directory))
    process = mpi.start(
        *("-np", "3", "--stall-dump", str(dumps), PYTHON, script),
        HVDLITE_STALL_CHECK_TIME_SECONDS="0.5",
    )
    wait_until(lambda: len(list(dumps.glob("*/stall.rank?.json"))) == 3)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    told = mpi.job.explain(dumps)
    assert re.search(sleeps.pattern(), told.splitlines()[1]) and "no file" not in told, told


def test_top_asks_mpis_ranks_for_a_bundle(mpi: Mpi) -> None:
    job, dumps = mpi.job, mpi.job.directory / "dumps"
    script = job.script(
        "import os, time, numpy as np, hvdlite as hvd\nhvd.init()\n"
        "open(f'ready.{hvd.rank()}', 'w').close()\n"
        "while not hvd.allreduce(float(os.path.exists('enough')), name='stop'):\n"
        "    time.sleep(0.01)  # poll\n"
    )
    process = mpi.start("-np", "2", "--stall-dump", str(dumps), PYTHON, script)
    job.wait_ready(2)
    command = (PYTHON, "-m", "hvdlite.tools", "top", str(process.pid), "--dump")
    assert job.command(*command).stdout.startswith("2 ranks will write a bundle")
    wait_until(lambda: len(list(dumps.glob("*/asked.rank?.json"))) == 2)
    (job.directory / "enough").touch()
    ended(process)


def test_the_secret_is_in_no_command_line(mpi: Mpi) -> None:
    write = "import os\nopen('secret', 'w').write(os.environ['HVDLITE_SECRET'])\n"
    process = mpi.start_ready(write + READY)
    secret = (mpi.job.directory / "secret").read_bytes()
    command_lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in mpi.job.pids()]
    assert len(command_lines) >= 5 and len(secret) == 64  # launcher, guardian, mpirun, two ranks
    assert not any(secret in line for line in command_lines)
    process.send_signal(signal.SIGTERM)
    process.communicate()


def test_flags_and_the_environment_reach_the_ranks(mpi: Mpi) -> None:
    flags = ["--cycle-time-ms", "7", "-x", "GREETING=a b", "--network-interfaces", "lo", "--tcp"]
    command = 'echo "$HOROVOD_CYCLE_TIME $GREETING $OWN $NCCL_IB_DISABLE"'
    done = mpi.run("-np", "2", *flags, "sh", "-c", command, OWN="mine")
    assert prefixed(done.stdout, 1) == ["7.0 a b mine 1"], done.stderr


def test_more_arguments_go_to_mpirun(mpi: Mpi) -> None:
    argument = "--display map" if mpi.is_open_mpi else "-verbose"
    done = mpi.end_well("-np", "1", f"--mpi-args={argument}", "true")
    assert (b"JOB MAP" if mpi.is_open_mpi else b"host: ") in done.stderr


def test_output_is_told_apart_byte_for_byte(mpi: Mpi) -> None:
    script = mpi.job.script(
        "import os, sys\n"
        + RANK
        + "text = bytes(range(256)) * 40 + b'[1,0]<stdout> 0: [0] \\n' + b'x' * 5000\n"
        "os.write(1, text if rank else b'hello\\n')\nos.write(2, b'oops %d\\n' % rank)\n"
    )
    done = mpi.end_well("-np", "2", "--output-filename", "logs", PYTHON, script)
    expected = bytes(range(256)) * 40 + b"[1,0]<stdout> 0: [0] \n" + b"x" * 5000
    logs = mpi.job.directory / "logs"
    assert (logs / "rank.1" / "stdout").read_bytes() == expected
    assert (logs / "rank.0" / "stdout").read_bytes() == b"hello\n"
    assert [(logs / f"rank.{rank}" / "stderr").read_text() for rank in (0, 1)] == [
        "oops 0\n",
        "oops 1\n",
    ]
    assert sorted(done.stderr.splitlines()) == [b"[0]<stderr>:oops 0", b"[1]<stderr>:oops 1"]


def test_much_output_comes_in_order(mpi: Mpi) -> None:
    script = mpi.job.script("import os\n" + RANK + "for i in range(20000): print(rank, i)\n")
    mpi.end_well("-np", "2", "--output-filename", "logs", PYTHON, script)
    for rank in (0, 1):
        expected = "".join(f"{rank} {i}\n" for i in range(20000))
        assert (mpi.job.directory / "logs" / f"rank.{rank}" / "stdout").read_text() == expected


def test_timestamps(mpi: Mpi) -> None:
    done = mpi.run("-np", "1", "-prefix-timestamp", "echo", "out")
    assert re.fullmatch(
        rb"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\[0\]<stdout>:out\n", done.stdout
    )


# --- how it ends


def test_success_is_silent(mpi: Mpi) -> None:
    done = mpi.run("-np", "2", "true")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_exit_code_and_the_last_words_of_the_rank_that_failed(mpi: Mpi) -> None:
    script = mpi.job.script(
        "import os, sys\n"
        + RANK
        + "if rank == 1:\n    print('ValueError: so bad', file=sys.stderr)\n    sys.exit(3)\n"
    )
    done = mpi.run("-np", "2", PYTHON, script)
    assert done.returncode == 3
    # Open MPI 5 does not always say which one it was.
    told = r"rank 1 on \S+ exited with code 3: ValueError: so bad\. All other.*"
    said = r"The last words of rank 1: ValueError: so bad"
    guessed = rf"mpirun exited with code 3\. All ranks have ended\. {said}"
    assert re.fullmatch(f"hvdliterun: ({told}|{guessed})", last_line(done.stderr))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=lambda n: n.name)
def test_a_killed_rank_ends_all(mpi: Mpi, number: signal.Signals) -> None:
    die = f"if rank == 1:\n    wait_for('ready.0')\n    os.kill(os.getpid(), {int(number)})\n"
    done = mpi.run("-np", "2", PYTHON, mpi.job.script(RANK + WAIT_FOR + die + READY))
    assert done.returncode == 128 + number
    assert re.search(rf"rank 1 on \S+ was killed by {number.name}", last_line(done.stderr))
    assert mpi.job.pids() == []


def test_ranks_that_are_no_part_of_hvdlite_are_ended_when_one_fails(mpi: Mpi) -> None:
    # MPICH's mpirun would let them run on.
    fail = "if rank == 1:\n    wait_for('ready.0')\n    raise SystemExit(3)\n"
    done = mpi.run("-np", "2", PYTHON, mpi.job.script(RANK + WAIT_FOR + fail + READY))
    assert done.returncode == 3, done.stderr
    assert mpi.job.pids() == []


def test_a_rank_that_is_stuck_is_ended_when_the_others_have_given_up(mpi: Mpi) -> None:
    sleeps = FAULTS[0]
    script = str(sleeps.write(mpi.job.directory))
    done = mpi.run("-np", "3", PYTHON, script, **sleeps.variables)
    assert done.returncode == 1, done.stderr
    assert re.search(sleeps.pattern(), done.stderr.decode()), done.stderr
    assert mpi.job.pids() == []


def test_survivors_of_a_rank_that_exits_are_ended(mpi: Mpi) -> None:
    script = mpi.job.script(
        "import os, sys\nimport numpy as np\nimport hvdlite as hvd\nhvd.init()\n"
        "if hvd.rank() == 1:\n    os._exit(3)\n"
        "while True:\n    hvd.allreduce(np.ones(4), name='step')\n"
    )
    done = mpi.run("-np", "2", PYTHON, script)
    # Open MPI tells of one rank. Where it is held up until both have ended it sees rank 0 first,
    # which failed because rank 1 was lost.
    noticed = mpi.is_open_mpi and done.returncode == 1 and b"PeerLostError" in done.stderr
    assert done.returncode == 3 or noticed, done.stderr


SAVE = """
import signal, sys, time
def save(*_):
    print('saving', flush=True)
    time.sleep(0.8)  # span: longer than it takes mpirun to end ranks that it has no patience with
    print('saved', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name
)
def test_a_signal_to_the_launcher_lets_ranks_save_and_ends_them(
    mpi: Mpi, number: signal.Signals
) -> None:
    process = mpi.start_ready(SAVE + READY, "--grace-seconds", PATIENT)
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == 128 + number
    assert last_line(err) == f"hvdliterun: ended by {number.name}; all ranks were ended."
    assert prefixed(out, 0) == prefixed(out, 1) == ["saving", "saved"]
    assert mpi.job.pids() == []


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace_period(mpi: Mpi) -> None:
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY
    process = mpi.start_ready(script, "--grace-seconds", "0.7")
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    ended(process, 143)
    assert time.monotonic() - asked >= 0.7


def test_user_signals_are_passed_on_where_mpirun_can(mpi: Mpi) -> None:
    script = (
        "import os, signal\n"
        + RANK
        + "def write(number, _): open(f'got.{number}.{rank}', 'w').close()\n"
        "signal.signal(signal.SIGUSR1, write)\nsignal.signal(signal.SIGUSR2, write)\n" + READY
    )
    process = mpi.start_ready(script)
    process.send_signal(signal.SIGUSR1)
    one, two = int(signal.SIGUSR1), int(signal.SIGUSR2)
    mpi.job.wait_for_files([f"got.{one}.0", f"got.{one}.1"])
    process.send_signal(signal.SIGUSR2)  # MPICH's would end the job
    if mpi.is_open_mpi:
        mpi.job.wait_for_files([f"got.{two}.0", f"got.{two}.1"])
    # What was sent after it arrives, so it has not ended the job. Twice: signals that come together
    # are answered by their numbers.
    for _ in range(2):
        for rank in range(2):
            (mpi.job.directory / f"got.{one}.{rank}").unlink()
        process.send_signal(signal.SIGUSR1)
        mpi.job.wait_for_files([f"got.{one}.0", f"got.{one}.1"])
    process.send_signal(signal.SIGTERM)
    process.communicate()


DEAF = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n" + READY


def test_kill_9_of_the_launcher_leaves_neither_mpirun_nor_ranks(mpi: Mpi) -> None:
    process = mpi.start_ready(DEAF)
    assert len(mpi.job.pids()) >= 5
    process.kill()
    assert mpi.job.wait_until_gone(5.0) == []


def test_kill_9_of_mpirun_ends_its_ranks(mpi: Mpi) -> None:
    process = mpi.start_ready(DEAF, "--grace-seconds", "0.5")
    os.kill(mpi.pid(), signal.SIGKILL)
    _, err = ended(process, 137)
    assert last_line(err) == "hvdliterun: mpirun was killed by SIGKILL. All ranks have ended."
    assert mpi.job.pids() == []


def test_a_command_that_is_not_there(mpi: Mpi) -> None:
    done = mpi.run("-np", "2", "no-such-command-here")
    assert done.returncode != 0
    assert b"no-such-command-here" in done.stderr


def test_a_host_that_is_not_there(mpi: Mpi) -> None:
    done = mpi.run("-np", "2", "-H", "no-such-host-here:2", "true")
    assert done.returncode != 0
    assert b"no-such-host-here" in done.stderr


# --- without a usable mpirun


def test_no_mpirun(job: Job) -> None:
    done = job.run("--mpi", "-np", "2", "true", HVDLITE_MPIRUN="/no/such/mpirun")
    assert done.returncode == 1
    assert (
        "HVDLITE_MPIRUN=/no/such/mpirun is not a program. --mpi needs Open MPI, MPICH"
        in last_line(done.stderr)
    )


def test_something_else_called_mpirun(job: Job) -> None:
    done = job.run("--mpi", "-np", "2", "true", HVDLITE_MPIRUN="echo")
    assert done.returncode == 1
    assert "neither Open MPI's nor MPICH's nor Intel MPI's: `mpirun --version` says" in last_line(
        done.stderr
    )


def test_jsrun_is_only_shown(job: Job) -> None:
    done = job.run("--jsrun", "-H", "a:2,b:2", "python", "train.py")
    assert done.returncode == 2
    assert b"jsrun --nrs=2 --tasks_per_rs=2" in done.stderr and b"LSF" in done.stderr


def test_more_ranks_than_slots(job: Job) -> None:
    done = job.run("--mpi", "-np", "4", "-H", "localhost:2", "true")
    assert (done.returncode, done.stdout) == (2, b"")
    assert (
        done.stderr
        == b"hvdliterun: -np 4 is more than the 2 slots of the hosts: give them more (-H "
        b"host:slots), or start fewer processes.\n"
    )
