"""Where threads run: what only the operating system can confirm."""

from __future__ import annotations

import os

from launched import Job

SHOW_CORES = """
import pathlib
import hvdlite as hvd
hvd.init()
tasks = pathlib.Path("/proc/self/task").iterdir()
mine = next(t for t in tasks if (t / "comm").read_text().strip() == "hvdlite")
status = dict(line.split(":", 1) for line in (mine / "status").read_text().splitlines())
print(f"rank {hvd.rank()} on cores", status["Cpus_allowed_list"].strip(), flush=True)
hvd.barrier()
"""


def test_the_background_threads_run_where_they_are_told(job: Job) -> None:
    cores = sorted(os.sched_getaffinity(0))
    first, last = cores[0], cores[-1]
    script = job.script(SHOW_CORES)
    done = job.end_well("-np", "2", "--thread-affinity", f"{last},{first}", "python", script)
    said = done.stdout.decode()
    assert f"rank 0 on cores {last}\n" in said and f"rank 1 on cores {first}\n" in said


def test_a_wrong_list_of_cores_is_a_warning_and_changes_nothing(job: Job) -> None:
    script = job.script(SHOW_CORES)
    done = job.end_well("-np", "2", "python", script, HOROVOD_THREAD_AFFINITY="0")
    assert "has 1 cores, but this host has 2 ranks: give one for each" in done.stderr.decode()
    free = job.run("-np", "2", "python", script)
    assert sorted(done.stdout.splitlines()) == sorted(free.stdout.splitlines())
