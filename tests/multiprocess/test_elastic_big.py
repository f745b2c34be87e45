"""A newcomer receives an object of more than 2 GiB: row 32 of the design's table of faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from launched import Job

GIB = 1 << 30
NEEDED = 10 * GIB  # for the two ranks together


def _available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    [kib] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kib) << 10


PROGRAM = """
import os
import hvdlite as hvd
LENGTH, END = 2**31, b"the last bytes"
hvd.init()
state = hvd.elastic.ObjectState(big=b"")

@hvd.elastic.run
def train(state):
    if hvd.size() == 1:
        state.big = bytes(LENGTH) + END
        with open("more", "w") as file: file.write("localhost slots=2\\n")
        os.replace("more", "hosts")
        while True: state.commit()
    assert len(state.big) == LENGTH + len(END) and state.big.endswith(END)
    hvd.barrier()
    return hvd.elastic.member()

print("member", train(state), "has it", flush=True)
"""


@pytest.mark.full
@pytest.mark.watchdog(180)
def test_an_object_of_more_than_two_gib_reaches_a_newcomer(job: Job) -> None:
    if _available() < NEEDED:
        pytest.skip(f"{_available() >> 20} MiB of memory are free, and {NEEDED >> 20} are needed")
    (job.directory / "hosts").write_text("localhost slots=1\n")
    script = job.script(PROGRAM)
    done = job.end_well("-np", "1", "--min-np", "1", "--hostfile", "hosts", "python", script)
    assert sorted(done.stdout.decode().splitlines()) == [
        "[0]<stdout>:member 1 has it",
        "[1]<stdout>:member 2 has it",
    ]
    assert job.pids() == []
