"""Programs with groups of torch's own backends, in which a rank does not come to a collective."""

from __future__ import annotations

import pytest
from installed import needs_installed
from launched import Job
from others import PYTHON

needs_installed("torch")


@pytest.fixture(autouse=True)
def _hooks() -> None:
    import torch

    if not hasattr(torch._C._distributed_c10d, "PreHookArgs"):
        pytest.skip("torch calls no hook in front of a collective before 2.14")


PROGRAM = """
import logging, os, time
import torch, torch.distributed as dist
import hvdlite.torch.distributed
hvdlite.torch.distributed.init()
class Told(logging.Handler):
    def emit(self, record):
        if "has not come to" in record.getMessage():
            open("told", "w").close()
logging.basicConfig()
logging.getLogger("hvdlite").addHandler(Told())
group = dist.new_group(backend="gloo")
ones = torch.ones(3)
def evaluate():
    while not os.path.exists("told"):
        time.sleep(0.01)  # poll
for number in range(9):
    if number == 7 and dist.get_rank() == 1:
        evaluate()
    dist.all_reduce(ones, group=group)
assert ones[0] == 3 ** 9
"""


@pytest.mark.watchdog(100)
def test_the_rank_that_does_not_come_is_named_with_its_line(job: Job) -> None:
    done = job.end_well(
        "-np", "3", "-x", "HVDLITE_STALL_CHECK_TIME_SECONDS=1", PYTHON, job.script(PROGRAM)
    )
    said = done.stderr.decode()
    assert (
        "rank 1 has not come to allreduce 7 of torch's group '1', for which ranks 0 and 2" in said
    )
    assert "rank 1 is in " in said and "(evaluate)" in said, said


@pytest.mark.watchdog(100)
def test_without_stall_checks_nobody_looks(job: Job) -> None:
    looks = "from hvdlite.torch.distributed import arrivals; assert arrivals._watch is None\n"
    (job.directory / "told").touch()
    job.end_well("-np", "3", "--no-stall-check", PYTHON, job.script(PROGRAM + looks))
