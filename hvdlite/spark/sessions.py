"""The session of the program, classic or Connect: the few things in which they differ."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


def active() -> Any:
    """Returns the session of this program. Raises RuntimeError if there is none."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    # A program with a session of Connect has imported this. Where grpc is missing, pyspark ends a
    # `python -c` that imports it.
    remote = sys.modules.get("pyspark.sql.connect.session")
    if found is None and remote is not None:
        found = remote.SparkSession.getActiveSession()
    if found is None and SparkContext._active_spark_context is not None:
        found = SparkSession.builder.getOrCreate()  # the context's session, in another thread
    if found is None:
        raise RuntimeError(
            "hvdlite.spark needs a running session: SparkSession.builder.getOrCreate() makes one."
        )
    return found


def is_classic(session: Any) -> bool:
    return ".connect." not in type(session).__module__


def conf(session: Any, key: str) -> str | None:
    """Returns the value of a key, if it is set."""
    if is_classic(session):
        own = session.sparkContext.getConf().get(key)
        if own is not None:
            return str(own)
    found = session.conf.get(key, None)
    return None if found is None else str(found)


def slots(session: Any) -> int | None:
    """Returns how many tasks of a barrier stage run at the same time now; None if Spark does not
    tell. Spark's own check asks the same."""
    if not is_classic(session):
        return None
    try:
        context = session.sparkContext._jsc.sc()
        profile = context.resourceProfileManager().defaultResourceProfile()
        return int(context.maxNumConcurrentTasks(profile))
    except Exception:  # py4j's, for a method that this Spark does not have
        return int(session.sparkContext.defaultParallelism)


def parallelism(session: Any) -> int | None:
    """Returns how many processes a job has unless its caller says so."""
    if is_classic(session):
        return int(session.sparkContext.defaultParallelism)
    text = conf(session, "spark.default.parallelism")
    return int(text) if text else None


def driver_host(session: Any) -> str:
    """Returns where executors reach the driver of a classic session."""
    return conf(session, "spark.driver.host") or ""


def tag(session: Any, name: str) -> None:
    """Marks jobs that this thread starts from now on, so that cancel() finds them."""
    session.addTag(name)
    if is_classic(session):
        session.sparkContext.setInterruptOnCancel(True)


def cancel(session: Any, name: str) -> None:
    with contextlib.suppress(Exception):  # the session has ended, and its jobs with it
        session.interruptTag(name)
