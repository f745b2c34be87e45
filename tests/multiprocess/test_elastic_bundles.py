"""Bundles of an elastic job: each generation has its own, because its ranks have other numbers."""

from __future__ import annotations

import re
import sys

import pytest
from launched import Job, ended
from waiting import wait_until

PROGRAM = """
import os, time
import numpy as np
import hvdlite as hvd
MEMBER = int(os.environ["HVDLITE_MEMBER"])
hvd.init()
state = hvd.elastic.ObjectState(step=0)
def evaluate():
    while not os.access("told", os.F_OK): time.sleep(0.1)  # poll
@hvd.elastic.run
def train(state):
    while state.step < 12:
        if MEMBER == 2 and state.step == 5: os._exit(7)
        if MEMBER == 1 and state.step == 8: evaluate()
        hvd.allreduce(np.ones(3), name="grad")
        state.step += 1
        state.commit()
train(state)
"""


@pytest.mark.full
def test_a_stall_of_a_later_generation_has_a_bundle_without_the_ranks_before(job: Job) -> None:
    dumps = job.directory / "dumps"
    process = job.start(
        "-np", "3", "--min-np", "1", "-H", "localhost:3", "--stall-dump", str(dumps),
        "--blacklist-cooldown-range", "100", "200", sys.executable,
        job.script(PROGRAM, "train.py"), HVDLITE_STALL_CHECK_TIME_SECONDS="0.5",
    )  # fmt: skip
    wait_until(lambda: len(list(dumps.glob("*/stall.rank?.json"))) == 2)
    (job.directory / "told").touch()
    ended(process)
    (stalled,) = {path.parent for path in dumps.glob("*/stall.rank?.json")}
    told = job.explain(stalled)
    assert re.match(r"rank [01] has not asked for allreduce 'grad'", told.splitlines()[1]), told
    assert "(evaluate)" in told and "no file" not in told
    (broken,) = {path.parent for path in dumps.glob("*/failure.rank?.json")} - {stalled}
    assert re.search(r"rank \d", job.explain(broken).splitlines()[1])
