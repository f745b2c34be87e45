"""A disk that is full costs a sentence for each file that hvdlite writes there. The job goes on,
and the verdict comes all the same."""

from __future__ import annotations

import re
import sys

import full_disk
import pytest
from launched import Job
from stuck_programs import PRELUDE

_WAITS = (
    PRELUDE
    + """
def evaluate():
    while not os.access("told", os.F_OK): time.sleep(0.1)  # poll
if rank == 1:
    evaluate()
step()
"""
)
_FILES = (
    "--stall-dump", "full/dumps", "--report", "full/run.html", "--metrics-file", "full/run.jsonl",
    "--timeline-filename", "full/t.json",
)  # fmt: skip


@pytest.mark.full
def test_a_full_disk_ends_no_job_and_hides_no_verdict(job: Job) -> None:
    job.prefix = full_disk.prefix(job)
    process = job.start(
        "-np", "2", *_FILES, sys.executable, job.script(_WAITS, "train.py"),
        HVDLITE_STALL_CHECK_TIME_SECONDS="0.5",
    )  # fmt: skip
    said = ""
    assert process.stderr is not None
    for line in process.stderr:
        said += line.decode()
        if "This rank's part of the bundle" in said and "rank 0 waits in" in said:
            (job.directory / "told").touch()
    process.communicate()
    assert process.returncode == 0, said
    for sentence, times in (
        (r"This rank's part of the bundle cannot be written to .*/full/dumps/hvdlite-", None),
        (r"there is no report, or an old one: cannot write .*full/run\.html: No space left", 1),
        (r"the rest of the metrics is lost: cannot write to .*full/run\.jsonl: No space left", 1),
        (r"cannot write the timeline to '.*full/t\.json': No space left", 1),
        (r"rank 1 has not asked for allreduce 'grad' .*it is in train\.py:\d+ \(evaluate\)", None),
    ):
        found = len(re.findall(sentence, said))
        assert found == times if times else found, (sentence, said)
