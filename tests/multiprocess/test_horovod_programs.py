"""Programs that were written for Horovod run unchanged, each way of giving hvdlite its name."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest
from launched import ROOT, Job

from hvdlite import compat

PROGRAMS = ROOT / "tests" / "drop_in" / "programs"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}


def _check(done: subprocess.CompletedProcess[bytes]) -> None:
    said = done.stdout.decode()
    assert done.returncode == 0, said + done.stderr.decode()
    assert sorted(re.findall(r"rank (\d) of 2 is done", said)) == ["0", "1"], said


def _need(*modules: str) -> None:
    for module in modules:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")


@pytest.mark.watchdog(120)
def test_torch_by_python_m(job: Job) -> None:
    _need("torch")
    program = str(PROGRAMS / "torch_training.py")
    flags = ("--epochs", "3", "--fp16-allreduce", "--workers", "1")
    done = job.run("-np", "2", "python", "-m", "hvdlite.compat", program, *flags)
    _check(done)
    assert len(re.findall(r"epoch \d loss", done.stdout.decode())) == 3


@pytest.mark.watchdog(180)
def test_tensorflow_by_the_launchers_flag(job: Job) -> None:
    _need("tensorflow")
    _check(job.run("-np", "2", "--horovod-compat", "python", str(PROGRAMS / "tensorflow_tape.py"), **QUIET))


@pytest.mark.watchdog(180)
def test_keras_by_the_environment_alone(job: Job) -> None:
    _need("tensorflow", "keras")
    variables = compat.environment(job.environment()) | QUIET
    _check(job.run("-np", "2", "python", str(PROGRAMS / "keras_fit.py"), str(job.directory), **variables))


@pytest.mark.watchdog(120)
def test_torch_by_an_installed_alias_and_horovodrun(job: Job) -> None:
    _need("torch")
    venv.create(job.directory / "venv", symlinks=True)
    python, horovodrun = (str(job.directory / "venv" / "bin" / name) for name in ("python", "horovodrun"))
    ours = [path for path in sys.path if path.endswith("-packages")]
    Path(sysconfig.get_path("purelib", vars={"base": str(job.directory / "venv")}), "ours.pth").write_text(
        "\n".join(ours)
    )
    environment = job.environment()
    subprocess.run([python, "-m", "hvdlite.commands", "compat", "install"], check=True, env=environment)
    flags = [
        "-np",
        "2",
        "-H",
        "localhost:2",
        "--fusion-threshold-mb",
        "32",
        "--cycle-time-ms",
        "1",
        "--log-level",
        "WARNING",
    ]
    command = [horovodrun, *flags, python, str(PROGRAMS / "torch_training.py"), "--gradient-predivide-factor", "2"]
    _check(subprocess.run(command, capture_output=True, env=environment, timeout=100))


def test_horovod_run_is_ours_and_its_ranks_have_the_alias(job: Job) -> None:
    script = job.script("""
import horovod
import horovod.runner
import hvdlite

def work(add):
    import horovod.common.exceptions
    from horovod.common.basics import HorovodBasics
    hvd = HorovodBasics()
    hvd.init()
    return hvd.rank() + add, horovod.common.exceptions.__name__

if __name__ == "__main__":
    assert horovod.run is horovod.runner.run is hvdlite.run
    print(horovod.run(work, args=(10,), num_proc=2))
""")
    command = [sys.executable, "-m", "hvdlite.compat", script]
    done = subprocess.run(command, capture_output=True, text=True, env=job.environment(), timeout=50)
    assert done.stdout == "[(10, 'hvdlite.exceptions'), (11, 'hvdlite.exceptions')]\n", done.stderr


def test_a_communicator_of_all_ranks_is_what_init_has_anyway(job: Job) -> None:
    script = job.script("""
import os
import hvdlite as hvd

class World:  # as mpi4py's
    def Get_size(self):
        return int(os.environ["HVDLITE_SIZE"])

    def Get_rank(self):
        return int(os.environ["HVDLITE_RANK"])

for part in ([0], [1, 0], [0, 1, 2]):
    try:
        hvd.init(comm=part)
    except ValueError as error:
        assert "not supported for a part of the ranks" in str(error)
    else:
        raise AssertionError(part)
for whole in ([0, 1], World(), []):
    hvd.init(whole)
    assert hvd.allreduce(1.0, op=hvd.Sum) == 2
    hvd.shutdown()
""")
    done = job.run("-np", "2", "python", script)
    assert done.returncode == 0, done.stderr.decode()


def test_a_program_that_fails_looks_as_under_python_itself(job: Job) -> None:
    script = job.script("import horovod.common.util, sys\nsys.argv.pop()\nraise SystemExit(int(sys.argv[1]))\n")
    assert job.run("-np", "2", "python", "-m", "hvdlite.compat", script, "3", "x").returncode == 3
    script = job.script("import horovod.runner\n\ndef f():\n    raise KeyError('lost')\n\nf()\n")
    done = subprocess.run(
        [sys.executable, "-m", "hvdlite.compat", script], capture_output=True, text=True, env=job.environment()
    )
    plain = f'Traceback (most recent call last):\n  File "{script}", line 6, in <module>\n    f()\n'
    assert done.returncode == 1 and done.stderr.startswith(plain) and done.stderr.endswith("KeyError: 'lost'\n")
