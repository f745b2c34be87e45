"""hvdlite on Spark: `run(fn)` makes the tasks of one barrier stage the ranks of one job.

    runner     START HERE: run(fn), the driver
    barrier    what a task of the barrier stage does: starts one rank, and reports
    placement  which rank each task is, and the environment of its rank
    slots      decides whether Spark has enough slots
    sessions   where classic sessions and those of Spark Connect differ
    listening  the ranks' output on its way to the driver
    outcome    what tasks hand back, and which rank's failure has ended the job
    task       what a rank's function asks about its task
    needs      says what to install
    elastic    run_elastic(fn): tasks that come and go
    common     what the Estimators of all frameworks have in common
    torch      Estimators for torch
    keras      Estimators for Keras
    lightning  Estimators for Lightning

    driver: runner ──mapInArrow(barrier)──► task: barrier ──guardian──► rank: hvdlite.launch.task
            outcome ◄── rows ──────────────        │  ▲
            listening ◄── lines, classic only ─────┘  └── the store of partition 0's task

Nothing here is imported unless a program imports hvdlite.spark.
"""

from hvdlite.spark.needs import need_pyspark

need_pyspark()

from hvdlite.spark.elastic.run import run_elastic  # noqa: E402
from hvdlite.spark.runner import run  # noqa: E402

__all__ = ["run", "run_elastic"]
