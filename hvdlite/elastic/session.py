"""This process in generation after generation, while it trains.

A user of it is called at boundaries: `run` (loop.py), which calls the program's function again, or
a loop that goes on where it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.core.arrays.objects import allgather_object
from hvdlite.core.process_sets import ProcessSet
from hvdlite.elastic import driver_notices, notices
from hvdlite.elastic.notices import Sigterm
from hvdlite.elastic.notifications import notification_manager
from hvdlite.elastic.state import ObjectState, State
from hvdlite.job import basics, membership, torch_environment
from hvdlite.job import process_sets as registration
from hvdlite.job.membership import Membership, PutOut, StateProgress
from hvdlite.rendezvous.documents import DriverNotice

_OWN = ("save", "restore", "sync")


_log = logging.getLogger("hvdlite")


def warn_of_a_job_that_is_not_elastic() -> None:
    if basics.is_initialized() and basics.size() > 1 and basics.rank() == 0:
        _log.warning(
            "this job is not elastic, and ends with its first rank that fails: start it with "
            "`hvdliterun --min-np N` or `--host-discovery-script FILE`."
        )


def reset() -> None:
    basics.shutdown()
    basics.init()


class Session:
    """`reset` leaves the engine of one generation and comes into the next one's."""

    def __init__(self, state: Any, reset: Callable[[], None] = reset) -> None:
        member = membership.member()
        assert member is not None
        self.member: Membership = member
        self._state = state
        self._reset = reset
        self._is_foreign = is_foreign(state)
        self._sets = LastingSets(member)
        self._sigterm = Sigterm(member)

    def begin(self) -> bool:
        """A newcomer waits for its generation here. Returns whether this process has become
        another rank by that."""
        member = self.member
        member.in_run = True
        told = member.numbers
        if basics.warms_up():
            self.next_generation()
        driver_notices.start(member, _tell)
        self._sigterm.__enter__()
        return (member.numbers.rank, member.numbers.size) != (told.rank, told.size)

    def settle(self, changed: bool) -> None:
        """All ranks of a new generation call this, before they do anything else in it. Afterwards
        they have the job's state."""
        if self.member.generation > 1:
            self._sets.renew()
        torch_environment.renew(self.member)
        self._take_role(changed)
        self.member.trains()

    def has_failed(self, error: Exception) -> None:
        self.member.has_failed(basics.loss_of(error))
        if self._is_foreign:
            self._state.restore()

    def leave_if_asked(self) -> None:
        """Ends the process if the ranks have agreed at this boundary that it leaves."""
        told = driver_notices.agreed()
        notice = notices.notice(told, self.member) if told is not None else None
        if notice is None or not notice.this_rank:
            return
        self.member.leave(self._progress())
        basics.shutdown()
        why = f" ({notice.reason})" if notice.reason else ""
        raise PutOut(f"hvdlite: this process leaves the job, as it was asked to{why}.")

    def next_generation(self) -> None:
        """Ends when this process is in it. Raises PutOut if it is in none any more."""
        self.member.progress = self._progress()
        if not self._is_foreign:
            self.member.alike, self.member.fingerprints = self._state._described()
        self._reset()

    def end(self) -> None:
        driver_notices.stop()
        self._sigterm.__exit__()

    def _progress(self) -> StateProgress:
        """Of a foreign state only its copies are known, and rank 0 always sends."""
        if not self._is_foreign:
            progress: StateProgress = self._state._progress()
            return progress
        position = self._state._marks.position if isinstance(self._state, State) else 0
        return StateProgress(position, False, position)

    def _take_role(self, changed: bool) -> None:
        member, state = self.member, self._state
        assert member.assignment is not None
        if not self._is_foreign:
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
