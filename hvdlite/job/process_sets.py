"""Process sets, where Horovod has them: registers them with all ranks, and removes them. All ranks
of the job take part.

Only the members of a set with a name add and remove it. The other ranks call nothing. In an elastic
job such a set ends with the generation.

In an elastic job the sets that a program registers before `run` last: `hvdlite.elastic` registers
them anew in each generation. Those that it registers in the function under `run` end with the
generation, because the function is called again.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hvdlite import _core
from hvdlite.base.operations import (
    ADD_NAMED_PROCESS_SET,
    ADD_PROCESS_SET,
    REMOVE_NAMED_PROCESS_SET,
    REMOVE_PROCESS_SET,
)
from hvdlite.base.ops import Sum
from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet, global_process_set, ranks_in_job, set_id_of

if TYPE_CHECKING:
    from hvdlite.job.membership import Membership

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]

_registered: weakref.WeakSet[ProcessSet] = weakref.WeakSet()
_named: weakref.WeakSet[ProcessSet] = weakref.WeakSet()
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
        _add_named(process_set, name)
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


def instead_of_all(process_set: ProcessSet | None) -> None:
    """Until the next call, operations over all ranks are those over this set. None: over all."""
    if _core.is_initialized():
        number = 0 if process_set is None else set_id_of(process_set)
        global_process_set.process_set_id = number
        global_process_set.ranks = _core.process_set_ranks(number)
        engine.stand_for_all(number)


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


def _member() -> Membership | None:
    """Of an elastic job. In another one its module is not imported."""
    module = sys.modules.get("hvdlite.job.membership")
    found: Membership | None = module.member() if module is not None else None
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
            process_set.ranks = _ranks_of_communicator(process_set.mpi_comm)
        else:
            ranks_in_job(process_set)
    return _agree([(s.mpi_comm is not None, s.ranks) for s in process_sets])


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
        return _remove_named(process_set)
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


# ---- Sets that only their members add, under a name


def _add_named(process_set: ProcessSet, name: str) -> None:
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
    process_set.process_set_id = _run_named(ADD_NAMED_PROCESS_SET.kind, name, 0, ranks)
    process_set.name = name
    _named.add(process_set)


def _remove_named(process_set: ProcessSet) -> bool:
    """Returns when all members have called it. False if there is nothing to remove."""
    name, number = process_set.name, process_set.process_set_id
    if name is None or number is None:
        return False
    _run_named(REMOVE_NAMED_PROCESS_SET.kind, name, number, [])
    _forget(process_set)
    return True


def forget_named() -> None:
    """After shutdown: the sets with a name have ended with the job, or with its generation."""
    for process_set in list(_named):
        _forget(process_set)


def _forget(process_set: ProcessSet) -> None:
    process_set.process_set_id = process_set.name = None
    _named.discard(process_set)


def _ranks_of(process_set: ProcessSet) -> list[int]:
    process_set.apply_rule(_core.size())
    if process_set.mpi_comm is not None:
        process_set.ranks = _ranks_of_communicator(process_set.mpi_comm)
    return ranks_in_job(process_set)


def _run_named(kind: int, name: str, number: int, ranks: list[int]) -> int:
    return int(_core.run(kind, Sum, 0, name, None, None, number, 1.0, 1.0, ranks)[2])


# ---- Communicators of mpi4py by which a program names ranks: init(comm=...), ProcessSet(comm)

# The argument of init() and the launcher's ranks that make the job. They relate MPI's ranks to the
# job's.
_job: Any = None
_part: tuple[int, ...] = ()


def begin_with_communicator(communicator: Any, part: tuple[int, ...]) -> None:
    """Called when a job has begun."""
    global _job, _part
    _job, _part = communicator, part


def _ranks_of_communicator(communicator: Any) -> list[int] | None:
    """Returns the job's ranks in the communicator, ascending; None for COMM_NULL, which a process
    gets that is in no group. Raises ValueError if it has other ranks, or if MPI does not know this
    job."""
    mpi = sys.modules["mpi4py.MPI"]  # a program needs it to have a communicator
    if communicator == mpi.COMM_NULL:
        return None
    whole = mpi.COMM_WORLD if _job is None else _job
    group = whole.Get_group().Incl(_part) if _part else whole.Get_group()
    if (group.Get_rank(), group.Get_size()) != (_core.rank(), _core.size()):
        raise ValueError(
            f"this process is rank {_core.rank()} of {_core.size()} in the job, but MPI says that "
            f"it is rank {group.Get_rank()} of {group.Get_size()}, so a communicator does not tell "
            "the job's ranks: start the program with mpirun, or pass ranks"
        )
    ranks = sorted(mpi.Group.Translate_ranks(communicator.Get_group(), None, group))
    if mpi.UNDEFINED in ranks:
        raise ValueError("a process set's communicator has processes that are not in the job")
    return ranks


def _agree(mine: list[tuple[bool, list[int] | None]]) -> list[list[list[int]]]:
    """Returns what each entry of a list of process sets means to all ranks together. The lists have
    the same length on all ranks. An entry says whether it was a communicator, which may differ
    between ranks, and has its ranks here."""
    # imports cloudpickle, which init() does not need
    from hvdlite.core.arrays.objects import allgather_object

    said = allgather_object(mine)
    if len({len(entries) for entries in said}) > 1:
        counts = ", ".join(f"rank {rank} has {len(entries)}" for rank, entries in enumerate(said))
        raise ValueError(
            f"the ranks pass lists of different lengths to hvd.init(process_sets=...): {counts}"
        )
    meant = []
    for number, entries in enumerate(zip(*said, strict=True)):
        distinct = sorted({tuple(ranks) for _, ranks in entries if ranks is not None})
        if len(distinct) > 1 and not all(is_communicator for is_communicator, _ in entries):
            raise ValueError(
                f"process_sets entry number {number} differs between ranks: "
                f"{[ranks for _, ranks in entries]}"
            )
        meant.append([list(ranks) for ranks in distinct])
    return meant
