"""Faults of announced ends, spares and process sets of elastic jobs."""

from __future__ import annotations

from mutants.mutant import Mutant

_CREW = "hvdlite/launch/elastic/crew.py"
_DEPARTURES = "hvdlite/launch/elastic/departures.py"
_MEMBERSHIP = "hvdlite/launch/elastic/membership.py"
_SETS = "hvdlite/elastic/process_sets.py"
_SIGTERM = "hvdlite/elastic/sigterm.py"
_RACES = "tests/unit/test_elastic_races.py::"
_SHRINKING = "tests/unit/test_elastic_shrinking.py::"
_RULES = "tests/unit/test_elastic_rules.py::"
_COMMAND = "tests/unit/test_leave_command.py::"
_LEAVING = "tests/multiprocess/test_elastic_leaving.py::"

MUTANTS = (
    Mutant(
        "EL1",
        _CREW,
        "if self.at_boundary:",
        "if False:",
        "a rank that hears too late that it leaves is out before its leave callbacks have run",
        (_RACES + "test_a_notice_behind_a_boundary_is_told_before_the_next_one",),
    ),
    Mutant(
        "EL2",
        _MEMBERSHIP,
        "awaited=first and number < ranks",
        "awaited=first",
        "the first generation waits for spares",
        (_RULES + "test_the_first_generation_does_not_wait_for_spares",),
    ),
    Mutant(
        "EL3",
        _SETS,
        "if of_set is not None",
        "if True",
        "a newcomer that is rank 0 empties the process sets by list",
        (
            "tests/unit/test_elastic_process_sets.py::"
            "test_survivors_tell_newcomers_who_is_in_a_set_by_list",
        ),
    ),
    Mutant(
        "EL4",
        _SIGTERM,
        "os.register_at_fork(after_in_child=_in_child)",
        "",
        "a data loader's worker does not end by SIGTERM",
        (_LEAVING + "test_a_worker_that_a_rank_forks_ends_by_sigterm",),
    ),
    Mutant(
        "EL5",
        "hvdlite/rendezvous/fields.py",
        "or not value.isprintable()",
        "",
        "a request to leave can write control characters to terminals",
        (_COMMAND + "test_what_is_no_request_is_refused",),
    ),
    Mutant(
        "EL6",
        _CREW,
        "return is_newcomer, not member.has_state, is_told, member.slot",
        "return False, False, is_told, member.slot",
        "a rank that has the state leaves while a new process keeps its slot",
        (_SHRINKING + "test_a_newcomer_goes_before_a_trained_member",),
    ),
    Mutant(
        "EL7",
        _DEPARTURES,
        "        self.recall()\n",
        "",
        "a rank that was told to leave is out although another one has died for it",
        (_SHRINKING + "test_a_member_that_was_told_to_leave_stays_when_another_is_killed",),
    ),
    Mutant(
        "EL8",
        "hvdlite/launch/elastic/placing.py",
        " - beyond.get(host.name, 0)",
        "",
        "a host has more ranks than slots",
        (_SHRINKING + "test_the_lowest_slots_are_filled_as_far_as_the_number_goes",),
    ),
)
