"""A job that tunes itself: its log, the file with its result, and Horovod's names for it."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

import pytest
from launched import Job

TRAIN = """
import json
import numpy as np
import hvdlite as hvd
hvd.init()
for step in range({steps}):
    handles = [hvd.allreduce_async(np.full(1000 * (i + 1), hvd.rank() + 1.0), name=str(i),
                                   op=hvd.Sum) for i in range(4)]
    for handle in handles:
        assert (hvd.synchronize(handle) == hvd.size() * (hvd.size() + 1) / 2).all()
print(json.dumps(hvd.metrics().get("autotune")))
hvd.shutdown()
"""
QUICK = {"HVDLITE_AUTOTUNE_SAMPLE_MS": "0", "OMP_NUM_THREADS": "1"}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("horovods", [False, True])
def test_a_job_logs_its_samples_and_keeps_its_result(job: Job, horovods: bool) -> None:
    log, best = job.directory / "tune.csv", job.directory / "best.txt"
    flags = ["--autotune", "--autotune-log-file", str(log), "--autotune-steps-per-sample", "2"]
    variables = dict(QUICK)
    if horovods:
        flags = []
        variables |= {
            "HOROVOD_AUTOTUNE": "1",
            "HOROVOD_AUTOTUNE_LOG": str(log),
            "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "2",
        }
    script = job.script(TRAIN.format(steps=200))
    command = ["-np", "2", *flags, "--autotune-file", str(best), "--log-level", "info", "python"]
    done = job.end_well(*command, script, **variables)
    rows = _rows(log)
    assert (
        list(rows[0])[:7]
        == (
            "hierarchical_allreduce hierarchical_allgather torus_allreduce cache_enabled "
            "cycle_time_ms tensor_fusion_threshold score"
        ).split()
    )
    assert [row["event"] for row in rows[:3]] == ["warmup"] * 3
    assert rows[-1]["event"] == "best" and float(rows[-1]["score"]) > 0
    assert float(rows[0]["cycle_time_ms"]) == 1 and float(rows[0]["tensor_fusion_threshold"]) == 128
    tried = {(row["cycle_time_ms"], row["tensor_fusion_threshold"]) for row in rows}
    assert len(tried) > 1, "it has tried nothing else"
    assert b"Autotuner: sample 4, measured" in done.stderr
    assert best.read_text().startswith("hvdlite autotune 1\n2 ranks on 1 hosts\n")


def begun_with(job: Job, saved: str) -> subprocess.CompletedProcess[bytes]:
    """A job that finds this result of an earlier one."""
    best = job.directory / "best.txt"
    best.write_text("hvdlite autotune 1\n" + saved)
    script = job.script(TRAIN.format(steps=20))
    flags = ["--autotune", "--autotune-file", str(best), "--autotune-warmup-samples", "1000"]
    done = job.end_well("-np", "2", *flags, "python", script, **QUICK)
    return done


def test_the_next_job_begins_with_the_result(job: Job) -> None:
    done = begun_with(job, "2 ranks on 1 hosts\ncycle_time 3\nfusion_threshold -1\n")
    out = done.stdout.decode()
    assert out.count('"cycle_time_ms": 8, "fusion_threshold": 33554432') == 2, out


def test_a_result_of_another_job_is_not_used(job: Job) -> None:
    done = begun_with(job, "64 ranks on 8 hosts\ncycle_time 3\n")
    assert done.stdout.decode().count('"cycle_time_ms": 1,') == 2
    assert b"it is of a job of 64 ranks on 8 hosts" in done.stderr


def test_what_the_user_has_set_stays(job: Job) -> None:
    log = job.directory / "tune.csv"
    # The search draws what it tries: one of four jobs of 200 steps never tried another threshold.
    script = job.script(TRAIN.format(steps=5000))
    job.end_well(
        "-np", "2", "--autotune", "--autotune-log-file", str(log), "--cycle-time-ms", "2",
        "python", script, HVDLITE_AUTOTUNE_KEEP="shm_chunk_bytes",
        HVDLITE_AUTOTUNE_STEPS_PER_SAMPLE="2", **QUICK,
    )  # fmt: skip
    rows = _rows(log)
    assert {row["cycle_time_ms"] for row in rows} == {"2"}
    assert {row["shm_chunk_bytes"] for row in rows} == {"262144"}
    assert len({row["tensor_fusion_threshold"] for row in rows}) > 1


def test_without_the_flag_there_is_nothing(job: Job) -> None:
    log = job.directory / "tune.csv"
    script = job.script(TRAIN.format(steps=5))
    done = job.end_well("-np", "2", "--autotune-log-file", str(log), "python", script)
    assert done.stdout.decode().count("null") == 2
    assert not log.exists()
