"""`hvdlite.spark.run_elastic(fn)`: a job that goes on while executors of Spark die and come.

    run ──► job ──► the driver of hvdlite.launch.elastic, whose hosts are the tasks that have come
             ├── tasks      keeps jobs of Spark running, one task each
             ├── channels   the tasks that have come; `census` counts them
             └── member     the rank beside a task, for the driver
    station ──► what a task does: it offers one slot, until the driver ends the job

A barrier stage would end with the first task that is lost. These jobs have one task each, so a lost
one ends no other, and Spark places another one.
"""
