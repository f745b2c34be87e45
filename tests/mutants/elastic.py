"""Faults of elastic training: who may speak for a member, who is let in, what a step does again."""

from __future__ import annotations

from mutants.mutant import Mutant

_DOCUMENTS = "tests/unit/test_elastic_documents.py::"
_INBOX = "tests/unit/test_elastic_inbox.py::"
_LIKENESS = "tests/unit/test_elastic_likeness.py::"

MUTANTS = (
    Mutant(
        "EL1",
        "hvdlite/rendezvous/roll.py",
        "if not hmac.compare_digest(_seal(fields, token).encode(), seal.encode()):",
        "if not seal:",
        "a member speaks for another one",
        (
            _DOCUMENTS + "test_a_report_of_another_token_is_refused",
            _INBOX + "test_a_report_for_another_member_is_refused",
        ),
    ),
    Mutant(
        "EL2",
        "hvdlite/rendezvous/roll.py",
        "    if (report.member, report.generation) != (member, generation):",
        "    if report.member != member:",
        "a report of an earlier generation is taken in a later one",
        (_INBOX + "test_a_report_of_an_earlier_generation_is_refused_in_a_later_one",),
    ),
    Mutant(
        "EL3",
        "hvdlite/launch/elastic/inbox.py",
        "                if self._quota.allows(now):\n",
        "                if True:\n",
        "a member fills the log",
        (_INBOX + "test_a_flood_is_told_in_a_few_lines_and_a_count",),
    ),
    Mutant(
        "EL4",
        "hvdlite/rendezvous/likeness.py",
        "        if theirs[name] != form:",
        "        if False:",
        "a newcomer with other tensors ends the job",
        (_LIKENESS + "test_a_newcomer_with_other_tensors_is_refused_by_name_and_the_others_go_on",),
    ),
    Mutant(
        "EL5",
        "hvdlite/elastic/state.py",
        "        self._random.put_back()\n",
        "",
        "a step that is done again draws other random numbers",
        (_LIKENESS + "test_a_step_that_is_done_again_draws_the_same_random_numbers",),
    ),
)
