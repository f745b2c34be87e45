"""Process sets that only their members add and remove, under a name. The other ranks call nothing.

In an elastic job they end with the generation.
"""

from __future__ import annotations

import weakref

from hvdlite import _core
from hvdlite.base.operations import ADD_NAMED_PROCESS_SET, REMOVE_NAMED_PROCESS_SET
from hvdlite.base.ops import Sum
from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet, ranks_in_job
from hvdlite.job import communicators

_added: weakref.WeakSet[ProcessSet] = weakref.WeakSet()


def add(process_set: ProcessSet, name: str) -> None:
    """Returns when all members have called it."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of a process set is a str that is not empty, not {name!r}")
    if engine.warms_up():
        raise RuntimeError(
            f"process set {name!r}: this process has joined a job that trains already, and its "
            "rank is not known yet. Add the set in the function under @hvd.elastic.run."
        )
    ranks = _ranks_of(process_set)
    if _core.rank() not in ranks:
        raise ValueError(
            f"rank {_core.rank()} is not among the ranks {ranks} of process set {name!r}: only "
            "its members add a set that has a name"
        )
    known = process_set.process_set_id
    if known is not None:
        raise ValueError(f"{process_set} is registered already")
    process_set.process_set_id = _run(ADD_NAMED_PROCESS_SET.kind, name, 0, ranks)
    process_set.name = name
    _added.add(process_set)


def remove(process_set: ProcessSet) -> bool:
    """Returns when all members have called it. False if there is nothing to remove."""
    name, number = process_set.name, process_set.process_set_id
    if name is None or number is None:
        return False
    _run(REMOVE_NAMED_PROCESS_SET.kind, name, number, [])
    _forget(process_set)
    return True


def forget_all() -> None:
    """After shutdown: the sets have ended with the job, or with its generation."""
    for process_set in list(_added):
        _forget(process_set)


def _forget(process_set: ProcessSet) -> None:
    process_set.process_set_id = process_set.name = None
    _added.discard(process_set)


def _ranks_of(process_set: ProcessSet) -> list[int]:
    process_set.apply_rule(_core.size())
    if process_set.mpi_comm is not None:
        process_set.ranks = communicators.ranks_of(process_set.mpi_comm)
    return ranks_in_job(process_set)


def _run(kind: int, name: str, number: int, ranks: list[int]) -> int:
    return int(_core.run(kind, Sum, 0, name, None, None, number, 1.0, 1.0, ranks)[2])
