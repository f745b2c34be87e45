"""A rank of a job that has met dies: the others hear of it in the program before they are ended."""

from __future__ import annotations

import sys

import pytest
from launched import PATIENT, READY, Job, last_line

PYTHON = sys.executable

# The launcher with another number of seconds for survivors: as many as they need, or nearly none.
LAUNCHER = """
import sys
from hvdlite.launch import cli, verdict
verdict.SURVIVOR_SECONDS = {seconds}
sys.exit(cli.main())
"""
DEATHS = {
    "exits": "os._exit(3)",
    "is-killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "raises": "raise ValueError('bad')",
}
TRAINING = """
import os, signal, sys
import numpy as np
import hvdlite as hvd
hvd.init()
hvd.allreduce(np.ones(4, np.float32))
if hvd.rank() == 1:
    while not (os.path.exists("tries.0") and os.path.exists("tries.2")): pass
    {death}
try:
    open(f"tries.{{hvd.rank()}}", "w").close()
    while True: hvd.allreduce(np.ones(4, np.float32))
except hvd.HorovodInternalError as error:
    open(f"saved.{{hvd.rank()}}", "w").write(f"{{type(error).__name__}}: {{error}}")
finally:
    print("flushed")
"""


@pytest.mark.parametrize("death", DEATHS)
def test_survivors_save_and_flush_before_they_are_ended(job: Job, death: str) -> None:
    job.launcher = [job.script(LAUNCHER.format(seconds=PATIENT), "launcher.py")]
    done = job.run("-np", "3", PYTHON, job.script(TRAINING.format(death=DEATHS[death])))
    assert done.returncode == {"exits": 3, "is-killed": 137, "raises": 1}[death]
    assert "rank 1 on localhost" in last_line(done.stderr)
    for rank in (0, 2):
        saved = (job.directory / f"saved.{rank}").read_text()
        assert saved.startswith("PeerLostError") and "rank 1" in saved
        assert f"[{rank}]<stdout>:flushed" in done.stdout.decode()
    assert job.pids() == []


def test_a_survivor_that_does_not_end_by_itself_is_ended(job: Job) -> None:
    job.launcher = [job.script(LAUNCHER.format(seconds=0.05), "launcher.py")]
    program = (
        "import os, hvdlite as hvd\nhvd.init()\n"
        "if hvd.rank() == 1:\n"
        "    while not os.path.exists('ready.0'): pass\n"
        "    os._exit(3)\n" + READY
    )
    done = job.run("-np", "2", PYTHON, job.script(program))
    assert (
        done.returncode,
        "rank 1 on localhost exited with code 3" in last_line(done.stderr),
    ) == (3, True)
    assert job.pids() == []
