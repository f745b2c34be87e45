"""`hvdlite.spark.run_elastic(fn)`: a job that goes on while executors of Spark die and come.

    run         START HERE: what a user chooses
    job         the driver of hvdlite.launch.elastic, with tasks for hosts; keeps tasks running
    hosts       decides which hosts the tasks are that have come
    connection  the driver's ends of the connections with tasks; starts ranks
    agent_task  what a task does: it offers one slot, until the driver ends the job

A barrier stage would end with the first task that is lost. These jobs have one task each, so a lost
one ends no other, and Spark places another one.
"""
