"""hvdlite on Spark: `run(fn)` makes the tasks of one barrier stage the ranks of one job.

    driver: runner ──mapInArrow(barrier)──► task: barrier ──guardian──► rank: hvdlite.launch.task
            outcome ◄── rows ──────────────        │  ▲
            listening ◄── lines, classic only ─────┘  └── the store of partition 0's task

`run_elastic(fn)` has tasks that come and go (`elastic`).
Nothing here is imported unless a program imports hvdlite.spark.
"""

from hvdlite.spark.needs import need_pyspark

need_pyspark()

from hvdlite.spark.elastic.run import run_elastic  # noqa: E402
from hvdlite.spark.runner import run  # noqa: E402

__all__ = ["run", "run_elastic"]
