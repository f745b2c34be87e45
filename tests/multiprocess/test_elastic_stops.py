"""Members of an elastic job that are stopped at a moment at which no engine hears their hearts."""

from __future__ import annotations

import pytest
from elastic_faults import PYTHON, QUICKLY, generations, program
from launched import Job, last_line

STOPS = """
from hvdlite.job import membership
arrive, write = membership.Membership.arrive, membership.Membership._write
def stop(here, member, generation):
    if (here, member, generation) == (@WHERE): os.kill(os.getpid(), signal.SIGSTOP)
def arrives(self):
    found = arrive(self)
    stop("meets", MEMBER, self.generation)
    return found
def writes(self, report):
    stop("reports", MEMBER, report.generation)
    write(self, report)
    stop("has reported", MEMBER, report.generation)
membership.Membership.arrive, membership.Membership._write = arrives, writes
def happens(step):
    if (MEMBER, step) == (3, 5): die()
"""
# Member 3 dies in generation 1, and member 4 comes in generation 3.
WHERE = {
    "before its report of a loss": ("reports", 2, 2),
    "behind its report of a loss": ("has reported", 2, 2),
    "while the next generation forms": ("meets", 2, 2),
    "at a boundary": ("reports", 2, 3),
    "while a newcomer is admitted": ("meets", 2, 3),
    "as a newcomer that waits": ("has reported", 4, 0),
    "as a newcomer that is admitted": ("meets", 4, 3),
}


@pytest.mark.costly
@pytest.mark.parametrize("where", list(WHERE))
def test_a_member_that_is_stopped_between_generations_is_killed_and_the_others_go_on(
    job: Job, where: str
) -> None:
    _, member, generation = WHERE[where]
    stops = STOPS.replace("@WHERE", repr(WHERE[where])[1:-1])
    script = program(job, stops, done="hvd.size() == 3 and hvd.elastic.generation() > 1")
    done = job.end_well(
        "-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script, HVDLITE_HEARTBEAT_SECONDS="1"
    )
    assert f"member {member} on localhost was ended: it is stopped" in done.stderr.decode()
    assert all(number < (generation or 3) for number, _ in generations(job, member))
    assert [size for _, size in generations(job, 1)][-1] == 3
    assert job.pids() == []


STOPS_IN_THE_END = """
import atexit
def stop():
    if MEMBER == 2: os.kill(os.getpid(), signal.SIGSTOP)
atexit.register(stop)
"""


def test_a_member_that_is_stopped_behind_its_functions_return_does_not_keep_the_job(
    job: Job,
) -> None:
    script = program(job, STOPS_IN_THE_END)
    done = job.run(
        "-np", "2", "--min-np", "1", *QUICKLY, PYTHON, script, HVDLITE_HEARTBEAT_SECONDS="1"
    )
    assert done.returncode == 137, done.stderr.decode()
    assert "member 2 on localhost was ended: it is stopped" in last_line(done.stderr)
    assert done.stdout.decode().count("trained: ") == 2
    assert job.pids() == []
