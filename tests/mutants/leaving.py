"""Faults of announced ends, spares and process sets of elastic jobs."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
EL1: a rank that hears too late that it leaves is out before its leave callbacks have run
hvdlite/launch/elastic/members.py
- if self.at_boundary:
+ if False:
test_elastic_races.py::test_a_notice_behind_a_boundary_is_told_before_the_next_one

EL2: the first generation waits for spares
hvdlite/launch/elastic/state_machine.py
- awaited=first and number < ranks
+ awaited=first
test_elastic_rules.py::test_the_first_generation_does_not_wait_for_spares

EL3: a newcomer that is rank 0 empties the process sets by list
hvdlite/elastic/session.py
- if of_set is not None
+ if True
test_elastic_process_sets.py::test_survivors_tell_newcomers_who_is_in_a_set_by_list

EL4: a data loader's worker does not end by SIGTERM
hvdlite/elastic/notices.py
- os.register_at_fork(after_in_child=_in_child)
test_elastic_leaving.py::test_a_worker_that_a_rank_forks_ends_by_sigterm

EL5: a request to leave can write control characters to terminals
hvdlite/rendezvous/fields.py
- or not value.isprintable()
test_leave_command.py::test_a_seal_makes_no_request_of_what_is_none

EL6: a rank that has the state leaves while a new process keeps its slot
hvdlite/launch/elastic/members.py
- return is_newcomer, not member.has_state, is_told, member.slot
+ return False, False, is_told, member.slot
test_elastic_shrinking.py::test_a_newcomer_goes_before_a_trained_member

EL7: a rank that was told to leave is out although another one has died for it
hvdlite/launch/elastic/exits.py
-         self.recall()
test_elastic_shrinking.py::test_a_member_that_was_told_to_leave_stays_when_another_is_killed

EL8: a host has more ranks than slots
hvdlite/launch/elastic/members.py
-  - beyond.get(host.name, 0)
test_elastic_shrinking.py::test_the_lowest_slots_are_filled_as_far_as_the_number_goes
""")
