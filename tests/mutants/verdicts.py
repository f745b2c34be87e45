"""Faults of the verdict on a stuck job."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
VD1: a rank that asks for other operations seems to be busy
csrc/engine/observe/verdict.cc
- return Contains(other.missing, each);
+ return !Contains(other.missing, each);
C++ Verdict.names_who_what_and_where

VD2: uneven data is taken for another order
csrc/engine/observe/verdict.cc
- if (other->rounds > 0 && oldest.rounds > 0)
+ if (other->rounds > 0 || oldest.rounds > 0)
C++ Verdict.names_who_what_and_where

VD3: of two operations that block one another the older one is told, not the odd rank's
csrc/engine/observe/stall.cc
- stalled ? -tally->present : 0
+ 0
C++ StallTest.lists_first_what_is_stalled_and_what_most_ranks_have_asked_for

VD4: C code has the interpreter lock for a second, whenever it is asked
csrc/engine/observe/question.h
- if (unanswered_since_ == 0) unanswered_since_ = now;
+ unanswered_since_ = now;
C++ Question.says_once_for_each_question_that_Python_does_not_answer

VD5: a program whose name has a bracket seems to be stopped
csrc/base/process_state.cc
- stat.rfind(") ")
+ stat.find(") ")
C++ ProcessState.is_read_behind_any_command
""")
