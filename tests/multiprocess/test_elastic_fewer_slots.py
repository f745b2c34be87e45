"""A host that keeps fewer slots: members that have the state stay, whatever their slots are."""

from __future__ import annotations

import os
import signal

from elastic_faults import PYTHON, QUICKLY, generations, pid, program
from launched import Job, ended
from waiting import wait_until

# Member 1 dies in slot 0, and member 4 warms up there.
WARMS = """
flag("slot." + os.environ["HVDLITE_SLOT"])
if MEMBER == 4: wait_to_be_killed("warms")
def happens(step):
    if (MEMBER, step) == (1, 5): die()
"""


def test_a_slot_that_warms_up_is_taken_away_before_that_of_a_trained_member(job: Job) -> None:
    hosts = job.name_hosts("localhost:3")
    script = program(job, WARMS, done="hvd.size() == 2 and hvd.elastic.generation() > 2")
    process = job.start(
        "-np", "3", "--min-np", "1", *QUICKLY, "--host-discovery-script", f"cat {hosts}", PYTHON,
        script,
    )  # fmt: skip
    job.wait_for_files(["warms.4", "trains.2.2.2", "trains.2.2.3"])
    job.name_hosts("localhost:2")
    newcomer = pid(job, "warms.4")
    wait_until(lambda: newcomer not in job.pids())
    # Both survivors train on. When one of them dies, the other has the state.
    os.kill(pid(job, "trains.2.2.2"), signal.SIGKILL)
    out, _ = ended(process)
    assert b"member 3 is rank 0 of 2" in out and b"member 5 is rank 1 of 2" in out, out
    assert generations(job, 2) == [(1, 3), (2, 2)]
    assert (job.directory / "slot.2.3").exists() and (job.directory / "slot.0.5").exists()
    assert job.pids() == []
