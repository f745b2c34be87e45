"""`hvdlite.spark.run(fn)`: the tasks of a barrier stage become the ranks of a job."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from hvdlite.base import knobs
from hvdlite.launch import delivery, function
from hvdlite.launch.spawn.other_launchers import without_rank
from hvdlite.spark import barrier, listening, outcome, sessions, slots

__all__ = ["run"]

# A cancelled job is gone after the two seconds that Spark gives a Python worker.
_CANCEL_SECONDS = 20.0
_GLANCE_SECONDS = 0.1


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    start_timeout: float | None = None,
    use_mpi: bool | None = None,
    use_gloo: bool | None = None,
    extra_mpi_args: str | None = None,
    env: Mapping[str, str] | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    verbose: int = 1,
    nics: Sequence[str] | str | None = None,
    prefix_output_with_timestamp: bool = False,
    executable: str | None = None,
) -> list[Any]:
    """Calls `fn(*args, **kwargs)` in `num_proc` processes on the executors of Spark, the ranks of
    one job. Returns the results in the order of the ranks.

    It needs a session, classic or of Spark Connect, and `num_proc` free slots at the same time;
    `spark.default.parallelism` is the default. Each rank is a new process beside its task, and
    calls `hvd.init()` itself. Ranks of one host follow one another.

    A rank that raises an exception ends the others. run() then raises a RuntimeError with the
    rank's number, host and traceback; its cause is the rank's exception. Ctrl-C cancels the job.

    `env`: variables for the ranks, beside the HVDLITE_ and HOROVOD_ variables of this process.
    `stdout`, `stderr`: where the ranks' output appears, instead of this program's own streams; over
    Connect it stays in the logs of the executors. `start_timeout`: seconds until all tasks have to
    run (HVDLITE_SPARK_START_TIMEOUT). `nics`: the interfaces over which the ranks connect.
    `executable`: another Python for the ranks, of the same version. `use_gloo` and `verbose` are
    accepted for Horovod's sake.
    """
    if use_mpi or extra_mpi_args:
        raise NotImplementedError(
            "hvdlite.spark.run(use_mpi=True) is not possible: mpirun has no way to start ranks on "
            "Spark's executors. Leave it out."
        )
    session = sessions.active()
    size = size_of(session, num_proc)
    payload = function.pickled(fn, args, kwargs, "hvdlite.spark.run")
    values = knobs.resolve(os.environ)
    patience = (
        float(values["spark_start_timeout_seconds"]) if start_timeout is None else (start_timeout)
    )
    _wait_for_slots(session, size, patience)
    with contextlib.ExitStack() as stack:
        listener = None
        if sessions.is_classic(session):
            listener = listening.Listener(sessions.driver_host(session), stdout, stderr)
            stack.callback(listener.close)
        order = barrier.BarrierOrder(
            payload,
            delivery.program(),
            environment(os.environ, env, nics),
            executable,
            names(nics),
            prefix_output_with_timestamp,
            float(values["grace_seconds"]),
            None if listener is None else listener.address,
        )
        rows = _collect(session, order, size, listener, patience)
    return outcome.results(outcome.reports(rows), size)


def size_of(session: Any, num_proc: int | None, caller: str = "run") -> int:
    size = sessions.parallelism(session) if num_proc is None else num_proc
    if size is None:
        size = slots.most(lambda key: sessions.conf(session, key))
    if size is None:
        raise ValueError(
            f"hvdlite.spark.{caller}() does not know how many processes to start: pass num_proc."
        )
    if size < 1:
        raise ValueError(f"hvdlite.spark.{caller}(num_proc={size}) is not allowed: at least 1.")
    return size


def _wait_for_slots(session: Any, size: int, patience: float) -> None:
    at_most = slots.most(lambda key: sessions.conf(session, key))
    there, since = sessions.slots(session), time.monotonic()
    deadline = since + patience
    while not slots.is_enough(size, there, at_most, time.monotonic() - since):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{slots.too_few(size, there or 0)} More have not come within {patience:g} s."
            )
        time.sleep(_GLANCE_SECONDS)
        now = sessions.slots(session)
        if now != there:
            there, since = now, time.monotonic()


def names(nics: Sequence[str] | str | None) -> tuple[str, ...]:
    words = nics.split(",") if isinstance(nics, str) else nics or ()
    return tuple(word.strip() for word in words)


def environment(
    driver: Mapping[str, str], env: Mapping[str, str] | None, nics: Sequence[str] | str | None
) -> dict[str, str]:
    """The variables of this process that are knobs, and the caller's."""
    ours = {
        name: text
        for name, text in without_rank(driver).items()
        if re.match("(HVDLITE|HOROVOD)_", name) and "SECRET" not in name
    }
    chosen = {"HVDLITE_NETWORK_INTERFACES": ",".join(names(nics))} if nics else {}
    return {**ours, **chosen, **(env or {})}


def _collect(
    session: Any,
    order: barrier.BarrierOrder,
    size: int,
    listener: listening.Listener | None,
    patience: float,
) -> list[outcome.Row]:
    """Runs the job of Spark in a thread, so that Ctrl-C can cancel it."""
    tag = f"hvdlite-{secrets.token_hex(4)}"
    found: list[list[outcome.Row]] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            sessions.tag(session, tag)
            frame = session.range(0, size, 1, size).mapInArrow(
                _task(order), outcome.SCHEMA, barrier=True
            )
            found.append([tuple(row) for row in frame.collect()])
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="hvd-spark-job", daemon=True)
    thread.start()
    began = time.monotonic()
    try:
        while thread.is_alive():
            thread.join(_GLANCE_SECONDS)
            missing = listening.started(listener, size)
            if missing and thread.is_alive() and time.monotonic() - began > patience:
                raise TimeoutError(
                    f"the tasks of {len(missing)} of {size} ranks have not started within "
                    f"{patience:g} s: other jobs have the slots of Spark. start_timeout, or "
                    "HVDLITE_SPARK_START_TIMEOUT, sets how long to wait."
                )
    except BaseException:
        sessions.cancel(session, tag)
        thread.join(_CANCEL_SECONDS)
        raise
    if failed:
        raise RuntimeError(
            f"the job of hvdlite.spark.run() has failed in Spark: {outcome.why(str(failed[0]))}"
        ) from failed[0]
    return found[0]


def _task(order: barrier.BarrierOrder) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What Spark pickles. The executors need hvdlite and pyarrow."""

    def hvdlite_rank(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        from hvdlite.spark import barrier

        for _ in batches:
            pass
        for rank, kind, chunk in barrier.carry_out(order):
            columns = [
                pyarrow.array([rank], pyarrow.int32()),
                pyarrow.array([kind]),
                pyarrow.array([chunk], pyarrow.binary()),
            ]
            yield pyarrow.RecordBatch.from_arrays(columns, ["rank", "kind", "chunk"])

    return hvdlite_rank
