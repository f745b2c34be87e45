"""Programs whose tensors travel over MPI, under the mpiruns of two MPIs: who initialises it, with
which threads, who ends it, and what is told when something is not as it should be."""

from __future__ import annotations

import os
import re
import sys
import time

import pytest
from launched import Job
from machine import within
from mpis import MPI, TWO_ON_A_HOST, Mpirun, finish, mpich, open_mpi, under

from hvdlite.rendezvous import StoreServer

# Four ranks that import and initialise an MPI on a machine that is busy with other tests.
pytestmark = pytest.mark.watchdog(150)

PYTHON = sys.executable

BEGIN = """
import os, signal, sys, time
import numpy as np
import hvdlite as hvd
from hvdlite import _core
from hvdlite.job import horovod_basics as built

def add(over_mpi=True, enabled=None, **where):
    hvd.init(**where)
    assert _core.uses_mpi() is over_mpi, _core.explain(0)
    assert built.mpi_enabled() is (over_mpi if enabled is None else enabled), _core.explain(0)
    for size in (1, 1000, 300_000):
        total = hvd.allreduce(np.arange(float(size)) + hvd.rank(), op=hvd.Sum)
        ranks = hvd.size() * (hvd.size() - 1) / 2
        assert (total == np.arange(float(size)) * hvd.size() + ranks).all(), total

def done(text=""):
    with open(f"done.{hvd.rank()}", "a") as file:
        file.write(text)
"""
TWICE = BEGIN + "add()\nhvd.shutdown()\nadd()\ndone()\n"
FORCED = {"HVDLITE_CPU_OPERATIONS": "mpi"}


def run(
    job: Job, mpirun: Mpirun, size: int, program: str, seconds: float = 100, **extra: str
) -> tuple[int, str]:
    """mpirun's exit code, and all output."""
    codes, output = finish(under(mpirun, job, program, size, **extra), seconds=seconds)
    return codes[0], output


def run_well(job: Job, mpirun: Mpirun, size: int, program: str, **extra: str) -> None:
    """All ranks come to done() and print nothing."""
    assert run(job, mpirun, size, program, **extra) == (0, "")
    expect_done(job, size)


def expect_done(job: Job, size: int) -> None:
    told = {path.name for path in job.directory.glob("done.*")}
    assert told == {f"done.{rank}" for rank in range(size)}


def run_stored(job: Job, mpirun: Mpirun, size: int, program: str, **extra: str) -> tuple[int, str]:
    """With a launcher's store, as under hvdliterun --mpi, so that ranks meet without MPI."""
    secret = os.urandom(32)
    with StoreServer(secret).start() as server:
        store = "{}:{}".format(*server.address)
        extra |= {"HVDLITE_RENDEZVOUS": store, "HVDLITE_SECRET": secret.hex()}
        return run(job, mpirun, size, program, **extra)


# --- who has MPI, and when it is used

INITIALISED = {
    "by init": "",
    "by the program": "from mpi4py import MPI\n",
    "by init, because the program told mpi4py not to": "import mpi4py\nmpi4py.rc.initialize = "
    "False\n",
    "by init, though the program has imported it": "import mpi4py\nmpi4py.rc.initialize = "
    "False\nfrom mpi4py import MPI\n",
}


@MPI
@pytest.mark.parametrize("first", INITIALISED.values(), ids=INITIALISED)
def test_whoever_has_initialised_mpi(job: Job, mpirun: Mpirun, first: str) -> None:
    after = (
        "assert built.mpi_threads_supported() is True\nfrom mpi4py import MPI\nassert "
        "MPI.COMM_WORLD.allreduce(1) == 3\n"
    )
    run_well(job, mpirun, 3, first + TWICE + after, **FORCED)


@MPI
def test_mpi_between_hosts_and_shared_memory_within(job: Job, mpirun: Mpirun) -> None:
    """Nobody has asked for it: the launcher is an MPI's, and the hosts (pretended) are several."""
    code, output = run(job, mpirun, 4, TWO_ON_A_HOST + TWICE + "print(_core.explain(0))\n")
    assert code == 0 and output.count("hierarchical") == 4 and "mpi" in output, output
    expect_done(job, 4)


@MPI
@pytest.mark.parametrize("chosen", ["net", "gloo"])
def test_a_choice_against_mpi(job: Job, mpirun: Mpirun, chosen: str) -> None:
    program = TWO_ON_A_HOST + TWICE.replace("add()", "add(over_mpi=False)")
    run_well(job, mpirun, 4, program, HVDLITE_CPU_OPERATIONS=chosen)


@MPI
def test_ranks_of_one_host_share_memory(job: Job, mpirun: Mpirun) -> None:
    # Programs ask whether MPI is enabled before they use Adasum: under mpirun it is, as with
    # Horovod.
    program = (
        TWICE.replace("add()", "add(over_mpi=False, enabled=True)") + "print(_core.explain(0))\n"
    )
    program += "assert built.mpi_threads_supported() is True\n"
    program += (
        "assert (hvd.allreduce(np.ones(2), op=hvd.Adasum) == "
        "1).all()\nhvd.shutdown()\nassert not built.mpi_enabled()\n"
    )
    code, output = run(job, mpirun, 2, program)
    assert code == 0 and output.count("shm: all members are on one host") == 2, output


@MPI
def test_under_hvdliterun_mpi_is_found_as_well(job: Job, mpirun: Mpirun) -> None:
    assert run_stored(job, mpirun, 4, TWO_ON_A_HOST + TWICE) == (0, "")
    expect_done(job, 4)


HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "mpi4py":
            raise ModuleNotFoundError("No module named 'mpi4py'")
sys.meta_path.insert(0, Hidden())
"""


@MPI
def test_without_mpi4py_tensors_travel_over_tcp_or_all_ranks_are_told(
    job: Job, mpirun: Mpirun
) -> None:
    program = (
        HIDDEN
        + TWO_ON_A_HOST
        + TWICE.replace("add()", "add(over_mpi=False)")
        + "assert not built.mpi_built()\n"
    )
    assert run_stored(job, mpirun, 2, program) == (0, "")
    code, output = run_stored(job, mpirun, 2, program, **FORCED)
    assert code != 0 and "`pip install '.[mpi]'` in a clone of hvdlite brings it" in output, output


@MPI
def test_a_single_rank_without_mpi4py_leaves_nobody_waiting_in_mpi(
    job: Job, mpirun: Mpirun
) -> None:
    one = (
        "import os\nif (os.environ.get('OMPI_COMM_WORLD_RANK') or os.environ['PMI_RANK']) == '1':\n"
    )
    one += "".join(f"    {line}\n" for line in HIDDEN.splitlines())
    program = one + TWO_ON_A_HOST + TWICE.replace("add()", "add(over_mpi=False)")
    assert run_stored(job, mpirun, 3, program) == (0, "")
    code, output = run_stored(job, mpirun, 3, one + TWICE, **FORCED)
    assert code != 0 and "rank 1 cannot use it: mpi4py cannot be imported" in output, output


# --- threads

LEVEL = "import mpi4py\nmpi4py.rc.thread_level = '{}'\n"


@MPI
@pytest.mark.parametrize(
    "first", ["", "from mpi4py import MPI\n"], ids=["by init", "by the program"]
)
@pytest.mark.parametrize("level", ["single", "funneled"])
def test_too_few_threads_are_refused_with_the_fix(
    job: Job, mpirun: Mpirun, level: str, first: str
) -> None:
    code, output = run(job, mpirun, 2, LEVEL.format(level) + first + TWICE, **FORCED)
    assert code != 0 and f"MPI was initialised with MPI_THREAD_{level.upper()}" in output, output
    assert "mpi4py.rc.thread_level = 'multiple'" in output
    # Nobody has asked for MPI: TCP will do.
    program = (
        TWO_ON_A_HOST
        + LEVEL.format(level)
        + first
        + TWICE.replace("add()", "add(over_mpi=False, enabled=True)")
    )
    assert run(job, mpirun, 4, program) == (0, "")


@MPI
def test_serialized_threads_work_with_a_warning(job: Job, mpirun: Mpirun) -> None:
    program = LEVEL.format("serialized") + TWICE + "assert built.mpi_threads_supported() is False\n"
    code, output = run(job, mpirun, 2, program, **FORCED)
    assert code == 0 and output.count("MPI_THREAD_SERIALIZED") == 1, output
    expect_done(job, 2)


@MPI
def test_serialized_threads_on_request_need_no_warning(job: Job, mpirun: Mpirun) -> None:
    program = TWICE + "assert built.mpi_threads_supported() is False\n"
    assert run(job, mpirun, 2, program, HOROVOD_MPI_THREADS_DISABLE="1", **FORCED) == (0, "")


# --- communicators

COMMUNICATORS = """
from mpi4py import MPI
world = MPI.COMM_WORLD
me = world.rank
halves = world.Split(me % 2, key=-me)
for where, members in (
    (halves, [r for r in range(4) if r % 2 == me % 2][::-1]),
    (world.Split(0, key=-me), [3, 2, 1, 0]),
    (world, [0, 1, 2, 3]),
    ([3, 1, 2, 0], [3, 1, 2, 0]),
    ([2, 0] if me % 2 == 0 else [1, 3], [2, 0] if me % 2 == 0 else [1, 3]),
) * 2:
    add(OVER, True, comm=where)
    assert (hvd.rank(), hvd.size()) == (members.index(me), len(members))
    assert hvd.allgather(np.array([me])).tolist() == members
    hvd.shutdown()
if me in (1, 2):
    add(OVER, True, comm=[1, 2])
    hvd.shutdown()
else:
    try:
        hvd.init(comm=[1, 2])
    except ValueError as error:
        assert f"this is rank {me}, which is not in the list" in str(error)
try:
    hvd.init(comm=MPI.COMM_NULL)
except ValueError as error:
    assert "COMM_NULL" in str(error)
add(OVER, True)
done()
"""


@MPI
@pytest.mark.parametrize("over", ["mpi", "shm"])
def test_a_communicator_or_a_list_says_who_the_ranks_are(
    job: Job, mpirun: Mpirun, over: str
) -> None:
    extra = FORCED if over == "mpi" else {}
    program = BEGIN + COMMUNICATORS.replace("OVER", str(over == "mpi"))
    run_well(job, mpirun, 4, program, **extra)


PROCESS_SETS = """
from mpi4py import MPI
world = MPI.COMM_WORLD
me = world.rank
mine = [r for r in range(4) if r % 2 == me % 2]
first = hvd.ProcessSet(world.Split(me % 2, key=-me))
outer = hvd.ProcessSet(world.Create(world.group.Incl([0, 3])))
assert first.included() is None and first.mpi_comm is not None
for turn in range(2):
    hvd.init(process_sets=[first, hvd.ProcessSet([1, 2]), outer])
    assert (first.process_set_id, first.ranks) == (1 + me % 2, mine)
    assert hvd.allreduce(np.array([1.0 + me]), op=hvd.Sum, process_set=first) == sum(mine) + 2
    if outer.included():
        assert (outer.process_set_id, outer.ranks) == (4, [0, 3])
        assert hvd.allreduce(np.array([1.0 + me]), op=hvd.Sum, process_set=outer) == 5
    else:
        assert outer.process_set_id is None and me in (1, 2)
    later = hvd.add_process_set(hvd.ProcessSet(world.Split(me == 0)))
    assert (later.process_set_id, later.ranks) == ((6, [1, 2, 3]) if me else (5, [0])), later
    assert str(hvd.ProcessSet([0])) == "ProcessSet(process_set_id=None, ranks=[0], mpi_comm=None)"
    hvd.shutdown()
reversed_world = world.Split(0, key=-me)
hvd.init(comm=reversed_world, process_sets=[hvd.ProcessSet(world.Split(me < 2))])
assert hvd.rank() == 3 - me
hvd.init(process_sets=[hvd.ProcessSet(world.Split(me < 2))])
try:
    hvd.init(process_sets=[hvd.ProcessSet(world)] * (1 + (me == 2)))
except ValueError as error:
    assert ("lists of different lengths to hvd.init(process_sets=...): "
            "rank 0 has 1, rank 1 has 2") in str(error), error
try:
    hvd.init(process_sets=[hvd.ProcessSet(world)])
except ValueError as error:
    assert "entry 0 of hvd.init(process_sets=...) has the ranks of" in str(error), error
done()
"""


@MPI
@pytest.mark.parametrize("over", ["mpi", "shm"])
def test_process_sets_of_communicators(job: Job, mpirun: Mpirun, over: str) -> None:
    extra = FORCED if over == "mpi" else {}
    run_well(job, mpirun, 4, BEGIN + PROCESS_SETS, **extra)


# --- the end


@MPI
@pytest.mark.parametrize(
    "end",
    [
        "",
        "hvd.shutdown()\n",
        "hvd.shutdown()\nMPI.Finalize()\n",
        "MPI.Finalize()\nassert not hvd.is_initialized()\nhvd.shutdown()\n",
        "import atexit\natexit.register(lambda: MPI.COMM_WORLD.Barrier())\n",
    ],
    ids=[
        "of the program",
        "shutdown",
        "shutdown, Finalize",
        "Finalize, shutdown",
        "a handler of the program's that uses MPI",
    ],
)
def test_the_end_in_any_order(job: Job, mpirun: Mpirun, end: str) -> None:
    program = "from mpi4py import MPI\n" + BEGIN + "add()\ndone()\n" + end
    run_well(job, mpirun, 2, program, **FORCED)


@MPI
def test_mpi_that_has_ended_before_init_is_told(job: Job, mpirun: Mpirun) -> None:
    code, output = run(job, mpirun, 2, "from mpi4py import MPI\nMPI.Finalize()\n" + TWICE, **FORCED)
    assert code != 0 and "MPI was finalised before init()" in output, output


def expect_aborted(mpirun: Mpirun, code: int, output: str, ours: str) -> None:
    """MPI_Abort has ended the job, after our words."""
    # MPICH's mpiexec kills at once whoever calls it: what the rank said of it last may not be read
    # any more, and the code be the kill's.
    assert code == 1 or (mpirun is mpich and code == 9), (code, output)
    assert ours in output, output
    theirs = output.find("MPI_ABORT" if mpirun is open_mpi else "MPI_Abort")
    assert output.find(ours) < theirs or (mpirun is mpich and theirs < 0), output


# Between our words and MPI's lies one second, in which an mpirun has to pass ours on; one that is
# held up is given more.
LINGERING = "from hvdlite.job.bootstrap import mpi_end\nmpi_end._LAST_WORDS_SECONDS = 4.0\n"


@MPI
def test_an_exception_of_one_rank_ends_all_with_our_words_before_mpis(
    job: Job, mpirun: Mpirun
) -> None:
    program = (
        BEGIN
        + LINGERING
        + "add()\nif hvd.rank() == 1: raise KeyError('weights')\nwhile True: add()\n"
    )
    before = time.monotonic()
    code, output = run(job, mpirun, 3, program, seconds=30, **FORCED)
    assert time.monotonic() - before < within(20)
    expect_aborted(mpirun, code, output, "rank 1 failed: KeyError")
    assert not job.wait_until_gone(5.0)


@MPI
@pytest.mark.parametrize("how", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)"])
def test_a_lost_rank_ends_all(job: Job, mpirun: Mpirun, how: str) -> None:
    program = BEGIN + f"add()\nhvd.barrier()\nif hvd.rank() == 1: {how}\nwhile True: add()\n"
    before = time.monotonic()
    code, output = run(job, mpirun, 3, program, seconds=30, **FORCED)
    assert code != 0 and time.monotonic() - before < within(20), output
    assert not job.wait_until_gone(5.0)


@MPI
@pytest.mark.parametrize("end", ["", "hvd.shutdown()\n", "MPI.Finalize()\n"])
def test_who_goes_on_without_a_failed_rank_does_not_hang_at_its_end(
    job: Job, mpirun: Mpirun, end: str
) -> None:
    program = (
        "from mpi4py import MPI\n"
        + BEGIN
        + LINGERING
        + (
            "add()\n"
            "if hvd.rank() == 1:\n"
            "    while not os.path.exists('goes on'): time.sleep(0.01)\n"  # poll
            "    _core.abort('given up')\n"
            "    time.sleep(600)\n"  # until killed
            "open('goes on', 'w').close()\n"
            "try:\n    while True: add()\n"
            "except hvd.HorovodInternalError as error:\n"
            "    print(f'told: {error}', flush=True)\n"
        )
    )
    code, output = run(job, mpirun, 2, program + end, seconds=30, **FORCED)
    expect_aborted(mpirun, code, output, "told: rank 1 failed: given up")
    assert not job.wait_until_gone(5.0)


# --- MPIs that do not belong together


@MPI
def test_a_job_that_mpi_does_not_know_is_told(job: Job, mpirun: Mpirun) -> None:
    """The mpirun of one with the library of the other, where the ranks could meet without."""
    other = (mpich if mpirun is open_mpi else open_mpi)(2)[1]
    code, output = run_stored(job, mpirun, 2, TWICE, **other, **FORCED)
    # Whichever rank is first: the launcher may end the other one before it has spoken.
    assert code != 0 and re.search(r"has started this process as rank [01] of 2, ", output), output
    assert "or leave MPI out (HVDLITE_CPU_OPERATIONS=net)." in output
    program = TWO_ON_A_HOST + TWICE.replace("add()", "add(over_mpi=False)")
    net = {"HVDLITE_CPU_OPERATIONS": "net"}
    assert run_stored(job, mpirun, 2, program, **other, **net) == (0, "")


@MPI
def test_singletons_under_a_launcher_that_is_no_mpis_are_told(job: Job, mpirun: Mpirun) -> None:
    """hvdliterun has started them, and somebody wants MPI."""
    script = job.script("from mpi4py import MPI\n" + TWICE)
    done = job.run("-np", "2", PYTHON, script, **mpirun(2)[1], **FORCED)
    said = done.stderr.decode()
    assert done.returncode == 1
    # Likewise.
    told = (
        r"hvdliterun has started this process as rank [01] of 2, but MPI says that it is rank "
        r"0 of 1"
    )
    assert re.search(told, said), said
    assert "Use mpirun or `hvdliterun --mpi`" in said and "HVDLITE_CPU_OPERATIONS=net" in said
    script = job.script("from mpi4py import MPI\n" + TWICE.replace("add()", "add(over_mpi=False)"))
    job.end_well("-np", "2", PYTHON, script, **mpirun(2)[1])
