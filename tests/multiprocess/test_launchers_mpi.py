"""init() under the mpiruns of Open MPI and of MPICH."""

from __future__ import annotations

import os
import re

import pytest
from launched import Job
from mpis import MPI, Mpirun, end_well, finish, mpich, open_mpi, under
from others import PROGRAM, TWICE, expect_places, on_one_host

from hvdlite.rendezvous import StoreServer

INITIALISED = {
    "by the program": "from mpi4py import MPI\nassert MPI.COMM_WORLD.size == 2\n",
    "by init": "",
    "by init, because the program told mpi4py not to": "import mpi4py\nmpi4py.rc.initialize = "
    "False\n",
    "for one thread": "import mpi4py\nmpi4py.rc.thread_level = 'single'\nfrom mpi4py import MPI\n",
}


@MPI
@pytest.mark.parametrize("first", INITIALISED.values(), ids=INITIALISED)
def test_mpirun(job: Job, mpirun: Mpirun, first: str) -> None:
    done = "from mpi4py import MPI\nassert MPI.COMM_WORLD.allreduce(1) == 2\n"
    end_well(under(mpirun, job, first + TWICE + done))
    expect_places(job, on_one_host(2))


@MPI
def test_three_ranks_of_mpirun(job: Job, mpirun: Mpirun) -> None:
    end_well(under(mpirun, job, TWICE, 3))
    expect_places(job, on_one_host(3))


@MPI
def test_mpiruns_exit_code_is_that_of_the_rank_that_failed(job: Job, mpirun: Mpirun) -> None:
    # The first barrier: rank 0 has written its report.
    script = (
        PROGRAM
        + "turn()\nhvd.barrier()\nif hvd.rank() == 1: sys.exit(3)\nhvd.barrier()\nhvd.barrier()\n"
    )
    codes, output = finish(under(mpirun, job, script))
    assert codes in ([3], [1]), output  # rank 0's exception is as real
    expect_places(job, on_one_host(2), turns=1)


@MPI
def test_a_rank_of_mpirun_that_is_killed_takes_all_with_it(job: Job, mpirun: Mpirun) -> None:
    script = (
        PROGRAM + "turn()\nhvd.barrier()\nif hvd.rank() == 1: os.kill(os.getpid(), "
        "9)\nhvd.barrier()\nhvd.barrier()\n"
    )
    codes, output = finish(under(mpirun, job, script), seconds=20)
    assert codes != [0], output
    assert not job.wait_until_gone(5.0)


@MPI
def test_ctrl_c_ends_the_wait_for_mpis_broadcast(job: Job, mpirun: Mpirun) -> None:
    script = (
        "from mpi4py import MPI\nimport os, signal, threading, time\nimport hvdlite as hvd\n"
        "from hvdlite.job.bootstrap import mpi\n"
        "if MPI.COMM_WORLD.rank == 0:\n    signal.pause()\n"
        "complete = mpi.complete\n"
        "def interrupted(*given):\n"
        "    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    complete(*given)\n"
        "mpi.complete = interrupted\n"
        "try:\n"
        "    hvd.init()\n"
        "except KeyboardInterrupt:\n    open('interrupted', 'w').close()\n    os._exit(7)\n"
    )
    codes, output = finish(under(mpirun, job, script), seconds=20)
    assert (job.directory / "interrupted").exists(), output
    assert codes in ([7], [9]), output  # MPICH's may tell of the rank that it killed itself then


@MPI
def test_a_rank_under_mpirun_that_never_comes_is_waited_for_only_so_long(
    job: Job, mpirun: Mpirun
) -> None:
    script = (
        "from mpi4py import MPI\nimport os, time\n"
        "if MPI.COMM_WORLD.rank == 1:\n"
        "    while not os.path.exists('given up'): time.sleep(0.05)\n"  # poll
        "    raise SystemExit\n"
        + PROGRAM
        + "try:\n    turn()\nfinally:\n    open('given up', 'w').close()\n"
    )
    codes, output = finish(under(mpirun, job, script, HVDLITE_START_TIMEOUT="2"))
    assert codes != [0] and "within 2 s" in output, output


@MPI
def test_mpirun_of_one_mpi_with_the_library_of_another_is_told(job: Job, mpirun: Mpirun) -> None:
    """Traps 6 and 9: each process' MPI believes that it is alone; MPICH's library would end it
    under Open MPI's mpirun."""
    other = mpich if mpirun is open_mpi else open_mpi
    codes, output = finish(under(mpirun, job, TWICE, **other(2)[1]))
    assert codes != [0]
    if mpirun is open_mpi:
        said = (
            "Open MPI's mpirun has started this process as rank [01] of 2, which another MPI "
            "cannot join. mpi4py loads MPICH"
        )
    else:
        said = (
            "mpiexec has started this process as rank 1 of 2, but MPI says that it is rank 0 of 1. "
            "mpi4py loads Open MPI"
        )
    # Whichever rank is first: mpirun may end the other before it has spoken. MPICH's rank 0 waits
    # for the other until then.
    assert (
        re.search(said, output)
        and "MPI4PY_MPIABI" in output
        and "start the program with hvdliterun" in output
    ), output


@MPI
def test_ranks_that_only_mpi_knows_of_do_not_train_alone(job: Job, mpirun: Mpirun) -> None:
    script = (
        "from mpi4py import MPI\nimport os\n"
        "for name in list(os.environ):\n    if name.startswith(('PMI', 'OMPI', 'MPI_')): del "
        "os.environ[name]\n" + TWICE
    )
    codes, output = finish(under(mpirun, job, script))
    assert (
        codes != [0] and "MPI says that there are 2 processes, but hvdlite knows none" in output
    ), output
    end_well(under(mpirun, job, script, HVDLITE_ALLOW_SINGLETON="1"))


@MPI
def test_without_mpi4py_mpirun_is_told_what_to_do(job: Job, mpirun: Mpirun) -> None:
    job.script("raise ModuleNotFoundError(\"No module named 'mpi4py'\")", "mpi4py.py")
    codes, output = finish(under(mpirun, job, TWICE))
    assert codes != [0] and "`pip install '.[mpi]'` in a clone of hvdlite brings it" in output, (
        output
    )


@MPI
def test_a_store_that_is_there_spares_mpi(job: Job, mpirun: Mpirun) -> None:
    """hvdliterun over mpirun: it has opened the store, mpirun gives the numbers."""
    job.script("raise ModuleNotFoundError(\"No module named 'mpi4py'\")", "mpi4py.py")
    secret = os.urandom(32)
    with StoreServer(secret) as store:
        given = {
            "HVDLITE_RENDEZVOUS": "{}:{}".format(*store.address),
            "HVDLITE_SECRET": secret.hex(),
        }
        codes, output = finish(under(mpirun, job, TWICE, **given))
    assert codes == [0], output
    expect_places(job, on_one_host(2))
