"""Faults of the meetings in which small blocking allreduces happen without negotiation."""

from __future__ import annotations

from mutants.mutant import Mutant

_DIFFERS = "C++ OfRanks/EngineMeeting.leaves_an_operation_alone_that_differs/0"

MUTANTS = (
    Mutant(
        "MT1",
        "csrc/comm/shm/meeting.cc",
        "while (seen < Wanted()) {",
        "while (seen > 0) {",
        "a member withdraws from a complete meeting",
        ("C++ Meeting.is_complete_when_the_last_member_has_arrived",),
    ),
    Mutant(
        "MT2",
        "csrc/comm/shm/meeting.cc",
        "if (!(OfferOf(member).topic == OfferOf(me_).topic)) return false;",
        "",
        "members with different operations add their tensors",
        ("C++ Meeting.shows_all_members_that_their_topics_differ",),
    ),
    Mutant(
        "MT3",
        "csrc/comm/shm/meeting.h",
        "static_cast<size_t>(member) * 2 + (meeting_ & 1)",
        "static_cast<size_t>(member) * 2",
        "a fast member overwrites what a slow one still reads",
        ("C++ OfMembers/ManyMeetings.are_complete_for_all_or_for_none/1",),
    ),
    Mutant(
        "MT4",
        "csrc/engine/meetings.cc",
        "before.prescale == asked.prescale && ",
        "",
        "a rank that scales by another factor takes part",
        (_DIFFERS,),
    ),
    Mutant(
        "MT5",
        "csrc/engine/meetings.cc",
        " && before.dtype == asked.dtype",
        "",
        "a rank with another dtype takes part",
        (_DIFFERS,),
    ),
    Mutant(
        "MT6",
        "csrc/engine/process_set.cc",
        "group->meeting->SetElsewhere(false);",
        "group->meeting->SetElsewhere(true);",
        "ranks that have negotiated once never meet again",
        ("C++ OfRanks/EngineMeeting.performs_an_operation_that_all_ranks_know/0",),
    ),
)
