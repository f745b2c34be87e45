"""Faults of the verdict on a stuck job."""

from __future__ import annotations

from mutants.mutant import Mutant

_VERDICT = "C++ Verdict.names_who_what_and_where"

MUTANTS = (
    Mutant(
        "VD1",
        "csrc/engine/observe/verdict.cc",
        "return Contains(other.missing, each);",
        "return !Contains(other.missing, each);",
        "a rank that asks for other operations seems to be busy",
        (_VERDICT,),
    ),
    Mutant(
        "VD2",
        "csrc/engine/observe/verdict.cc",
        "if (other->rounds > 0 && oldest.rounds > 0)",
        "if (other->rounds > 0 || oldest.rounds > 0)",
        "uneven data is taken for another order",
        (_VERDICT,),
    ),
    Mutant(
        "VD3",
        "csrc/engine/observe/stall.cc",
        "stalled ? -tally->present : 0",
        "0",
        "of two operations that block one another the older one is told, not the odd rank's",
        ("C++ StallTest.lists_first_what_is_stalled_and_what_most_ranks_have_asked_for",),
    ),
    Mutant(
        "VD4",
        "csrc/engine/observe/question.h",
        "if (unanswered_since_ == 0) unanswered_since_ = now;",
        "unanswered_since_ = now;",
        "C code has the interpreter lock for a second, whenever it is asked",
        ("C++ Question.says_once_for_each_question_that_Python_does_not_answer",),
    ),
    Mutant(
        "VD5",
        "csrc/base/process_state.cc",
        'stat.rfind(") ")',
        'stat.find(") ")',
        "a program whose name has a bracket seems to be stopped",
        ("C++ ProcessState.is_read_behind_any_command",),
    ),
)
