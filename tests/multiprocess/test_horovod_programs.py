"""Programs that were written for Horovod run unchanged, each way of giving hvdlite its name."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from installed import needs_installed
from launched import ROOT, Job, last_line

from hvdlite import compat

PROGRAMS = ROOT / "tests" / "drop_in" / "programs"
BORROWED = ROOT / "tests" / "drop_in" / "borrowed"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}


def _run_two(job: Job, *words: str, **extra: str) -> None:
    _check(job.run("-np", "2", *words, **extra))


def _check(done: subprocess.CompletedProcess[bytes]) -> None:
    said = done.stdout.decode()
    assert done.returncode == 0, said + done.stderr.decode()
    assert sorted(re.findall(r"rank (\d) of 2 is done", said)) == ["0", "1"], said


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_torch_by_python_m(job: Job) -> None:
    needs_installed("torch")
    program = str(PROGRAMS / "torch_training.py")
    flags = ("--epochs", "3", "--fp16-allreduce", "--workers", "1")
    done = job.run("-np", "2", "python", "-m", "hvdlite.compat", program, *flags)
    _check(done)
    assert len(re.findall(r"epoch \d loss", done.stdout.decode())) == 3


@pytest.mark.costly
@pytest.mark.watchdog(180)
def test_tensorflow_by_the_launchers_flag(job: Job) -> None:
    needs_installed("tensorflow")
    _run_two(job, "--horovod-compat", "python", str(PROGRAMS / "tensorflow_tape.py"), **QUIET)


@pytest.mark.costly
@pytest.mark.watchdog(180)
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "keras"])
def test_what_libraries_borrow_of_horovod_is_there_and_works(job: Job, framework: str) -> None:
    needs_installed(framework, *(["tensorflow"] if framework == "keras" else []))
    _run_two(job, "--horovod-compat", "python", str(BORROWED / f"from_{framework}.py"), **QUIET)


@pytest.mark.costly
@pytest.mark.watchdog(180)
def test_keras_by_the_environment_alone(job: Job) -> None:
    needs_installed("tensorflow", "keras")
    variables = compat.environment(job.environment()) | QUIET
    _run_two(job, "python", str(PROGRAMS / "keras_fit.py"), str(job.directory), **variables)


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_torch_by_an_installed_alias_and_horovodrun(job: Job) -> None:
    needs_installed("torch")
    venv.create(job.directory / "venv", symlinks=True)
    python, horovodrun = (
        str(job.directory / "venv" / "bin" / name) for name in ("python", "horovodrun")
    )
    ours = [path for path in sys.path if path.endswith("-packages")]
    Path(
        sysconfig.get_path("purelib", vars={"base": str(job.directory / "venv")}), "ours.pth"
    ).write_text("\n".join(ours))
    environment = job.environment()
    subprocess.run(
        [python, "-m", "hvdlite.tools", "compat", "install"], check=True, env=environment
    )
    flags = (
        "-np 2 -H localhost:2 --fusion-threshold-mb 32 --cycle-time-ms 1 --log-level WARNING"
    ).split()
    command = [
        horovodrun,
        *flags,
        python,
        str(PROGRAMS / "torch_training.py"),
        "--gradient-predivide-factor",
        "2",
    ]
    _check(subprocess.run(command, capture_output=True, env=environment))


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
    done = job.command(sys.executable, "-m", "hvdlite.compat", script)
    assert done.stdout == "[(10, 'hvdlite.exceptions'), (11, 'hvdlite.exceptions')]\n", done.stderr


def test_a_program_that_misses_horovod_is_told_how_it_runs_unchanged(job: Job) -> None:
    program = "raise ModuleNotFoundError(\"No module named 'horovod'\", name='horovod')"
    done = job.run("-np", "2", sys.executable, "-c", program)
    said = last_line(done.stderr)
    assert done.returncode == 1 and "No module named 'horovod'" in said
    assert said.endswith("hvdliterun --horovod-compat runs it unchanged.")


def test_a_library_launches_by_horovods_arguments(job: Job) -> None:
    """The reason of a failure is in the exception: a program that catches it sees no stderr."""
    job.script("import sys\nassert '--fail' not in sys.argv, 'it was asked to'\n", "train.py")
    script = job.script("""
import sys
from horovod.runner import _HorovodArgs
from horovod.runner.launch import _run, parse_args

def arguments(**given):
    args = _HorovodArgs()
    args.num_proc, args.hosts, args.nics = 2, "localhost:2", ["lo"]
    vars(args).update(given)
    return args

def rank():
    import os
    return int(os.environ["HOROVOD_RANK"])

def fails(args):
    try:
        _run(args)
    except RuntimeError as error:
        print(error)
    else:
        raise AssertionError("no error")

if __name__ == "__main__":
    assert _run(arguments(run_func=rank)) == [0, 1]
    train = [sys.executable, "train.py"]
    assert _run(arguments(command=train)) is None
    fails(arguments(command=[*train, "--fail"]))
    sys.argv = ["horovodrun", "-np", "1", *train, "--fail"]
    fails(parse_args())
    fails(arguments(num_proc=3, command=train))
    try:
        _run(arguments(num_proc="two", command=train))
    except ValueError:
        pass
    else:
        raise AssertionError("no error")
""")
    done = job.command(sys.executable, "-m", "hvdlite.compat", script)
    assert done.returncode == 0, done.stderr
    failed, parsed, refused = done.stdout.splitlines()
    assert re.fullmatch(
        r"rank \d on localhost exited with code 1: AssertionError: it was asked to at train.py:2. "
        r"All other ranks have ended, too. \(hvdliterun's exit code: 1\)",
        failed,
    )
    assert parsed.startswith("rank 0 on localhost exited with code 1: AssertionError: it was asked")
    assert "-np 3 is more than the 2 slots" in refused and refused.endswith(
        "(hvdliterun's exit code: 2)"
    )


def test_a_list_of_ranks_makes_a_job_of_them(job: Job) -> None:
    """Two jobs at the launcher's one store at once, each of them twice."""
    script = job.script("""
import os
import numpy as np
import hvdlite as hvd

started = int(os.environ["HVDLITE_RANK"])
for wrong, words in (([0, 4], "ranks [4] do not exist"), ([1, 1], "names a rank twice"),
                     (["a"], "list of ranks (int)"),
                     ([r for r in range(4) if r != started],
                      f"this is rank {started}, which is not in the list")):
    try:
        hvd.init(comm=wrong)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(wrong)
for part in ([2, 0], [1, 3]) * 2 + ([0, 1, 2, 3], [3, 2, 1, 0], [], None):
    if not part or started in part:
        hvd.init(part)
        part = part or [0, 1, 2, 3]
        assert (hvd.rank(), hvd.size()) == (part.index(started), len(part))
        assert (hvd.local_rank(), hvd.local_size()) == (part.index(started), len(part))
        assert hvd.allgather(np.array([started])).tolist() == part
        hvd.shutdown()
""")
    job.end_well("-np", "4", "python", script)


def test_jobs_of_one_store_do_not_share_the_fate_of_a_rank(job: Job) -> None:
    script = job.script("""
import os, sys, time
import numpy as np
import hvdlite as hvd

started = int(os.environ["HVDLITE_RANK"])
if started == 3:
    while not os.path.exists("there"):
        time.sleep(0.01)  # poll
    os._exit(0)
if started == 1:
    # Not that of the others, who may start more than that apart; and long enough to get as far as
    # to wait.
    os.environ["HVDLITE_START_TIMEOUT"] = "6"
    try:
        open("there", "w").close()
        hvd.init(comm=[1, 3])
    except TimeoutError as error:
        assert "rank 1 did not call hvd.init()" in str(error), error
    open("told", "w").close()
else:
    hvd.init(comm=[0, 2])
    told = False
    # Both see it in the same turn, or one would ask for x and the other for a barrier.
    while not told:
        here, told = hvd.allreduce(np.array([1, os.path.exists("told")]), op=hvd.Sum, name="x")
        assert here == 2
        time.sleep(0.01)  # poll
    hvd.barrier()
""")
    job.end_well("-np", "4", "python", script)


def test_a_program_that_fails_looks_as_under_python_itself(job: Job) -> None:
    script = job.script(
        "import horovod.common.util, sys\nsys.argv.pop()\nraise SystemExit(int(sys.argv[1]))\n"
    )
    assert job.run("-np", "2", "python", "-m", "hvdlite.compat", script, "3", "x").returncode == 3
    script = job.script("import horovod.runner\n\ndef f():\n    raise KeyError('lost')\n\nf()\n")
    done = job.command(sys.executable, "-m", "hvdlite.compat", script)
    plain = f'Traceback (most recent call last):\n  File "{script}", line 6, in <module>\n    f()\n'
    assert (
        done.returncode == 1
        and done.stderr.startswith(plain)
        and done.stderr.endswith("KeyError: 'lost'\n")
    )
