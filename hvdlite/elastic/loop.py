"""`run`: the program's function and its process sets, in generation after generation."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hvdlite.core.arrays.objects import allgather_object
from hvdlite.core.process_sets import ProcessSet
from hvdlite.elastic import driver_notices, notices
from hvdlite.elastic.notices import Sigterm
from hvdlite.elastic.notifications import notification_manager
from hvdlite.elastic.state import ObjectState, State
from hvdlite.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from hvdlite.job import basics, membership, torch_environment
from hvdlite.job import process_sets as registration
from hvdlite.job.membership import Membership, PutOut, StateProgress
from hvdlite.rendezvous.documents import DriverNotice

_log = logging.getLogger("hvdlite")
_OWN = ("save", "restore", "sync")

Result = TypeVar("Result")


def run(func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates `func(state, ...)`, which trains.

    When a rank is lost, or ranks come or go, the function is left by an exception. The others
    go on: they agree about the state and call the function again.
    """
    return run_fn(func, None)


def run_fn(func: Callable[..., Result], reset: Callable[[], None] | None) -> Callable[..., Result]:
    """`run` for a program that leaves a job and joins the next one itself.

    Its `reset` calls shutdown() and init(), and is called in jobs that are not elastic, too.
    """

    @functools.wraps(func)
    def in_generations(state: Any, *args: Any, **kwargs: Any) -> Result:
        call = functools.partial(func, state, *args, **kwargs)
        member = membership.member()
        notification_manager.init()
        notification_manager.register_listener(state)
        try:
            if member is None:
                return _one_generation(state, call, reset)
            result: Result = _Loop(member, state, call, reset or _reset).run()
            return result
        except PutOut as out:
            _log.warning("%s", out.why)
            raise
        finally:
            notification_manager.remove_listener(state)

    return in_generations


def _reset() -> None:
    basics.shutdown()
    basics.init()


def _one_generation(
    state: Any, call: Callable[[], Result], reset: Callable[[], None] | None
) -> Result:
    """Of a job that is not elastic: its ranks stay, and one that fails ends it."""
    if basics.is_initialized() and basics.size() > 1 and basics.rank() == 0:
        _log.warning(
            "this job is not elastic, and ends with its first rank that fails: start it with "
            "`hvdliterun --min-np N` or `--host-discovery-script FILE`."
        )
    synchronises = True
    while True:
        try:
            if synchronises:
                state.sync()
            return call()
        except HorovodInternalError as error:
            if reset is None or not error.retryable:
                raise
            state.restore()
            synchronises = True
        except HostsUpdatedInterrupt as interrupt:  # of the program's own
            synchronises = not interrupt.skip_sync
        if reset is not None:
            reset()
        state.on_reset()


class _Loop:
    def __init__(
        self, member: Membership, state: Any, call: Callable[[], Any], reset: Callable[[], None]
    ) -> None:
        self._member = member
        self._state = state
        self._call = call
        self._reset = reset
        self._foreign = is_foreign(state)
        self._sets = LastingSets(member)

    def run(self) -> Any:
        member = self._member
        member.in_run = True
        told = member.numbers
        if basics.warms_up():
            self._next_generation()
        driver_notices.start(member, _tell)
        try:
            with Sigterm(member):
                return self._train(
                    (member.numbers.rank, member.numbers.size) != (told.rank, told.size)
                )
        finally:
            driver_notices.stop()

    def _train(self, changed: bool) -> Any:
        member, state = self._member, self._state
        while True:
            try:
                if member.generation > 1:
                    self._sets.renew()
                torch_environment.renew(member)
                self._take_role(changed)
                member.trains()
                result = self._call()
            except HorovodInternalError as error:
                if not error.retryable:
                    raise
                member.has_failed(basics.loss_of(error))
                if self._foreign:
                    state.restore()
            except HostsUpdatedInterrupt:
                self._leave_if_asked()
            else:
                member.done()
                return result
            self._next_generation()
            changed = True

    def _leave_if_asked(self) -> None:
        """Ends the process if the ranks have agreed at this boundary that it leaves."""
        told = driver_notices.agreed()
        notice = notices.notice(told, self._member) if told is not None else None
        if notice is None or not notice.this_rank:
            return
        self._member.leave(self._progress())
        basics.shutdown()
        why = f" ({notice.reason})" if notice.reason else ""
        raise PutOut(f"hvdlite: this process leaves the job, as it was asked to{why}.")

    def _next_generation(self) -> None:
        """Ends when this process is in it. Raises PutOut if it is in none any more."""
        self._member.progress = self._progress()
        if not self._foreign:
            self._member.alike, self._member.fingerprints = self._state._described()
        self._reset()

    def _progress(self) -> StateProgress:
        """Of a foreign state only its copies are known, and rank 0 always sends."""
        if not self._foreign:
            progress: StateProgress = self._state._progress()
            return progress
        position = self._state._marks.position if isinstance(self._state, State) else 0
        return StateProgress(position, False, position)

    def _take_role(self, changed: bool) -> None:
        member, state = self._member, self._state
        assert member.assignment is not None
        if not self._foreign:
            state._take_role(member.entry.role, member.source, member.assignment.position, changed)
            return
        if changed:
            state.on_reset()
        state.sync()
        if isinstance(state, State):
            state._marks.position = member.assignment.position


def _tell(heard: DriverNotice) -> None:
    notification_manager.tell(removed=bool(heard.leaving), added=bool(heard.ready))


def is_foreign(state: Any) -> bool:
    """Whether the state saves, restores or synchronises itself in a way of its own."""
    if not isinstance(state, ObjectState):
        return True
    theirs = [kind for kind in type(state).__mro__ if not kind.__module__.startswith("hvdlite.")]
    return any(name in vars(kind) for kind in theirs for name in _OWN)


# Process sets. A set by rule has the ranks that the rule names for the new size. A set by list
# keeps its surviving members, under their new ranks; a newcomer is in none, and learns from the
# others who is.


#: By position in the program: the numbers of the members; None where a rank does not know them,
#: or where a rule does.
Known = tuple[tuple[int, ...] | None, ...]
_REMOVED: tuple[int, ...] = (-1,)


class LastingSets:
    """Those that the program has registered before `run`."""

    def __init__(self, member: Membership) -> None:
        """Called in a generation, or while the process warms up."""
        self._member = member
        self._sets = registration.lasting()
        alone = member.generation == 0
        self._known: Known = tuple(None if alone else self._numbers(each) for each in self._sets)

    def renew(self) -> None:
        """All ranks call this when a generation is up, before they do anything else in it."""
        if not self._sets:
            return
        removed = [after is None for after in registration.lasting()[: len(self._sets)]]
        mine = tuple(
            _REMOVED if is_removed else known
            for is_removed, known in zip(removed, self._known, strict=True)
        )
        self._known = agreed(allgather_object(mine, name="elastic.process_sets"))
        for process_set, members in zip(self._sets, self._known, strict=True):
            if process_set is not None:
                self._renew(process_set, members)

    def _renew(self, process_set: ProcessSet, members: tuple[int, ...] | None) -> None:
        if members == _REMOVED:
            registration.remove_process_set(process_set)
            return
        if process_set.rule is not None:
            process_set.apply_rule(basics.size())
            registration.renew(process_set, registration.NONE_BY_RULE)
            return
        assignment = self._member.assignment
        there = assignment.member_numbers() if assignment is not None else ()
        process_set.ranks = [rank for rank, number in enumerate(there) if number in (members or ())]
        registration.renew(process_set, "all its members have left the job")

    def _numbers(self, process_set: ProcessSet | None) -> tuple[int, ...] | None:
        assignment = self._member.assignment
        if process_set is None:
            return _REMOVED
        if process_set.rule is not None or assignment is None:
            return None
        return tuple(assignment.member_numbers()[rank] for rank in process_set.ranks or ())


def agreed(known: Sequence[Known]) -> Known:
    """What the first rank knows that knows it, set by set. Pure."""
    counts = {len(of_rank) for of_rank in known}
    if len(counts) > 1:
        raise ValueError(
            "the ranks have registered different numbers of process sets before hvd.elastic.run: "
            f"{', '.join(f'rank {rank} {len(sets)}' for rank, sets in enumerate(known))}"
        )
    return tuple(
        next((of_set for of_set in of_ranks if of_set is not None), None)
        for of_ranks in zip(*known, strict=True)
    )


# Which process of an elastic job this is.


def generation() -> int:
    """Returns the number of the generation that this process is in; 0: none, or no elastic job."""
    found = membership.member()
    return found.generation if found else 0


def member() -> int:
    """Returns this process's number, which no other process of the job has or will have."""
    found = membership.member()
    return found.number if found else 0


def slot() -> int:
    """Returns the slot of this process on its host, which never changes: the index of its GPU.

    local_rank() becomes smaller when a neighbour dies.
    """
    found = membership.member()
    if found is not None:
        return found.slot
    return basics.local_rank()
