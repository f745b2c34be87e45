"""The process sets of an elastic job, in generation after generation.

A set by rule has the ranks that the rule names for the new size. A set by list keeps its surviving
members, under their new ranks; a newcomer is in none, and learns from the others who is.
"""

from __future__ import annotations

from collections.abc import Sequence

from hvdlite.core.arrays.objects import allgather_object
from hvdlite.core.process_sets import ProcessSet
from hvdlite.job import basics
from hvdlite.job import process_sets as registration
from hvdlite.job.membership import Member

#: By position in the program: the numbers of the members; None where a rank does not know them,
#: or where a rule does.
Known = tuple[tuple[int, ...] | None, ...]
_REMOVED: tuple[int, ...] = (-1,)


class LastingSets:
    """Those that the program has registered before `run`."""

    def __init__(self, member: Member) -> None:
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
