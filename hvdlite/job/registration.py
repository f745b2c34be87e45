"""Registers process sets with all ranks, and removes them. All ranks of the job take part.

A set with a name is the business of its members alone: see named_sets.py.

In an elastic job the sets that a program registers before `run` last: `hvdlite.elastic` registers
them anew in each generation. Those that it registers in the function under `run` end with the
generation, because the function is called again.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hvdlite import _core
from hvdlite.base.operations import ADD_PROCESS_SET, REMOVE_PROCESS_SET
from hvdlite.base.ops import Sum
from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet, ranks_in_job
from hvdlite.job import communicators, named_sets

if TYPE_CHECKING:
    from hvdlite.job.membership import Member

__all__ = ["add_process_set", "register_all", "remove_process_set"]

_registered: weakref.WeakSet[ProcessSet] = weakref.WeakSet()
# Of an elastic job, in the order of the program; None: was removed.
_lasting: list[ProcessSet | None] = []
NONE_BY_RULE = "its rule names none for this number of ranks"


def _registered_id(ranks: list[int]) -> int | None:
    for known in _core.process_set_ids():
        if _core.process_set_ranks(known) == ranks:
            return known
    return None


def add_process_set(
    process_set: ProcessSet | Iterable[int], *, name: str | None = None
) -> ProcessSet:
    """Registers a process set. All ranks of the job must call this with the same ranks, in the same
    order.

    With a `name`, only the members call it, with the same name and the same ranks. The call returns
    when all members have called. Several sets may have the same ranks under different names.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if name is not None:
        named_sets.add(process_set, name)
        return process_set
    if engine.warms_up():
        _last_alone(process_set)
        return process_set
    process_set.apply_rule(_core.size())
    if _waits_for_more_ranks(process_set):
        return process_set
    for ranks in _meant([process_set])[0]:
        known = _registered_id(ranks)
        if known is not None:
            raise ValueError(f"ranks {ranks} are process set {known} already: use that one")
        _register(process_set, ranks)
    _last(process_set)
    return process_set


def lasting() -> list[ProcessSet | None]:
    """Those that a program has registered before `run`; None where it has removed one again."""
    return list(_lasting)


def renew(process_set: ProcessSet, missing: str) -> None:
    """Registers a lasting set in a new generation, with the ranks that it has now.

    `missing`: why it has none, if so.
    """
    process_set.missing = "" if process_set.ranks else missing
    if process_set.ranks:
        _register(process_set, ranks_in_job(process_set))


def _member() -> Member | None:
    """Of an elastic job. In another one its module is not imported."""
    module = sys.modules.get("hvdlite.job.membership")
    found: Member | None = module.member() if module is not None else None
    return found


def _waits_for_more_ranks(process_set: ProcessSet) -> bool:
    """A rule may name no rank of a small generation, and some of a later one."""
    if process_set.rule is None or process_set.ranks or _member() is None:
        return False
    process_set.missing = NONE_BY_RULE
    _last(process_set)
    return True


def _last(process_set: ProcessSet) -> None:
    member = _member()
    if member is not None and not member.in_run and process_set not in _lasting:
        _lasting.append(process_set)


def _last_alone(process_set: ProcessSet) -> None:
    """Of a newcomer that warms up: its ranks are known when it is in a generation."""
    process_set.ranks = None
    _last(process_set)


def _meant(process_sets: list[ProcessSet]) -> list[list[list[int]]]:
    """Returns the sets of ranks that each entry means: its own ranks, or for a communicator those
    of each rank."""
    if all(process_set.mpi_comm is None for process_set in process_sets):
        return [[ranks_in_job(process_set)] for process_set in process_sets]
    for process_set in process_sets:
        if process_set.mpi_comm is not None:
            process_set.ranks = communicators.ranks_of(process_set.mpi_comm)
        else:
            ranks_in_job(process_set)
    return communicators.agree([(s.mpi_comm is not None, s.ranks) for s in process_sets])


def _register(process_set: ProcessSet, ranks: list[int]) -> None:
    """Registers a set on all ranks. The object of this rank has its own ranks only."""
    number = _registered_id(ranks)
    if number is None:
        number = _core.run(ADD_PROCESS_SET.kind, Sum, 0, None, None, None, 0, 1.0, 1.0, ranks)[2]
    if process_set.ranks == ranks:
        process_set.process_set_id = number
        process_set.missing = ""
        _registered.add(process_set)


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a process set on all ranks; all of them must call this. Returns False if there is
    nothing to remove.

    Of a set that was added with a name, only the members must call it.
    """
    if process_set.name is not None:
        return named_sets.remove(process_set)
    if process_set in _lasting:
        _lasting[_lasting.index(process_set)] = None
    process_set.missing = ""
    if process_set.process_set_id is None or process_set.process_set_id == 0:
        return False
    number = process_set.process_set_id
    existed = bool(
        _core.run(REMOVE_PROCESS_SET.kind, Sum, 0, None, None, None, number, 1.0, 1.0, [])[2] == 1
    )
    process_set.process_set_id = None
    return existed


def forget_all() -> None:
    """The ranks of an elastic job change: a number may soon mean another set."""
    for process_set in _registered:
        process_set.process_set_id = None
    _registered.clear()


def register_all(process_sets: list[ProcessSet]) -> None:
    """Does what init(process_sets=[...]) means: registers new sets, and finds the ids of known
    ones."""
    if engine.warms_up():
        for process_set in process_sets:
            _last_alone(process_set)
        return
    for process_set in process_sets:
        process_set.apply_rule(_core.size())
    process_sets = [each for each in process_sets if not _waits_for_more_ranks(each)]
    seen: list[list[int]] = [_core.process_set_ranks(0)]
    meant = _meant(process_sets)
    for number, (process_set, sets) in enumerate(zip(process_sets, meant, strict=True)):
        if any(ranks in seen for ranks in sets):
            raise ValueError(
                f"entry {number} of hvd.init(process_sets=...) has the ranks of an earlier set, or "
                f"of all ranks: {process_set}"
            )
        seen += sets
    for process_set, sets in zip(process_sets, meant, strict=True):
        for ranks in sets:
            _register(process_set, ranks)
        _last(process_set)
