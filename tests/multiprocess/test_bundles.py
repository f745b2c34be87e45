"""Bundles of real jobs: HVDLITE_STALL_DUMP, `hvdlite explain` and SIGQUIT."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest
from launched import Job, ended
from machine import within
from stuck_programs import FAULTS, PRELUDE
from waiting import wait_until

_SLEEPS = FAULTS[0]
_EXCEPTION = next(fault for fault in FAULTS if fault.name == "an exception")

# Goes on until the test has seen what it wants to see. A child does not catch SIGQUIT.
_HEALTHY = (
    PRELUDE
    + """
import subprocess
child = subprocess.Popen(["sleep", "600"])
open(f"ready.{rank}", "w").close()
def train():
    while not hvd.allreduce(float(os.path.exists("enough")), name="stop"):
        time.sleep(0.01)  # poll
train()
print("child", child.poll(), flush=True)
child.kill()
"""
)


def _folder(job: Job) -> Path:
    (folder,) = (job.directory / "dumps").iterdir()
    return folder


def _run(job: Job, program: Path, ranks: int, **variables: str) -> str:
    done = job.run(
        "-np", str(ranks), "--stall-dump", str(job.directory / "dumps"),
        sys.executable, str(program), **variables,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stderr.decode()


def test_a_stall_leaves_a_bundle_that_explain_turns_into_the_same_verdict(job: Job) -> None:
    said = _run(job, _SLEEPS.write(job.directory), 3, **_SLEEPS.variables)
    folder = _folder(job)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    stalls = sorted(folder.glob("stall.rank*.json"))
    assert [path.name for path in stalls] == [f"stall.rank{rank}.json" for rank in range(3)]
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "SECRET" not in path.read_text()
    told = job.explain(folder)
    assert f"hvdlite explain {folder}" in said
    verdict = told.splitlines()[1]
    assert verdict.startswith("rank 1 has not asked for allreduce 'grad' for ")
    # The first of the job's two stalls may have been a second younger.
    assert verdict.partition(": ")[2].partition(" and has")[0] in said
    assert "in evaluate" in told and "rank 1 in train.py:" in told
    one = json.loads(stalls[1].read_text())
    assert one["knobs"]["stall_check_time_seconds"] == 0.5
    assert [each["name"] for each in one["operations"]] == ["allreduce.grad"] * 3
    assert one["counters"]["operations"] == 3
    assert "hvdlite-where" not in told and "MainThread" in told


@pytest.mark.full
def test_a_stall_that_ends_the_job_at_once_leaves_a_bundle(job: Job) -> None:
    at_once = {"HVDLITE_STALL_CHECK_TIME_SECONDS": f"{within(0.4):g}"}
    at_once["HVDLITE_STALL_SHUTDOWN_TIME_SECONDS"] = f"{within(0.4):g}"
    _run(job, _SLEEPS.write(job.directory), 3, **at_once)
    folder = _folder(job)
    assert (folder / "stall.rank0.json").exists()
    assert job.explain(folder).splitlines()[1].startswith("rank 1 has not asked for allreduce")


@pytest.mark.full
def test_a_failure_leaves_a_bundle_of_every_rank(job: Job) -> None:
    _run(job, _EXCEPTION.write(job.directory), 2)
    folder = _folder(job)
    assert (folder / "failure.rank0.json").exists()
    assert "KeyError: 'the missing label' at train.py:" in job.explain(folder).splitlines()[1]


def test_sigquit_asks_a_healthy_job_for_a_bundle(job: Job) -> None:
    dumps = job.directory / "dumps"
    script = job.script(_HEALTHY, "train.py")
    process = job.start("-np", "2", "--stall-dump", str(dumps), sys.executable, script)
    job.wait_for_files(["ready.0", "ready.1"])
    process.send_signal(signal.SIGQUIT)
    wait_until(lambda: len(list(dumps.glob("*/asked.rank?.json"))) == 2)
    (job.directory / "enough").touch()
    out, err = ended(process)
    assert out.count(b"child None") == 2
    folder = _folder(job)
    assert f"hvdlite explain {folder}" in err.decode()
    told = job.explain(folder)
    assert "no operation had stalled" in told and "in train\n" in told


@pytest.mark.full
@pytest.mark.parametrize("whole", [True, False], ids=["hvdliterun", "a_rank"])
def test_sigquit_without_a_folder_prints_the_stacks(job: Job, whole: bool) -> None:
    process = job.start("-np", "2", sys.executable, job.script(_HEALTHY, "train.py"))
    job.wait_for_files(["ready.0", "ready.1"])
    assert process.stderr is not None
    if whole:
        process.send_signal(signal.SIGQUIT)
    else:
        pid = next(
            pid
            for pid in job.pids()
            if b"HVDLITE_RANK=1\0" in Path(f"/proc/{pid}/environ").read_bytes()
            and b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        os.kill(pid, signal.SIGQUIT)
    wanted = {b"[0]<stderr>:", b"[1]<stderr>:"} if whole else {b"[1]<stderr>:"}
    seen: set[bytes] = set()
    for line in process.stderr:
        if b", in train" in line:
            seen.add(line[: len(b"[0]<stderr>:")])
        if seen == wanted:
            break
    assert seen == wanted
    (job.directory / "enough").touch()
    ended(process)
