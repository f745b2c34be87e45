"""Faults of the meetings in which small blocking allreduces happen without negotiation."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
MT1: a member withdraws from a complete meeting
csrc/comm/shm/meeting.cc
- while (seen < Wanted()) {
+ while (seen > 0) {
C++ Meeting.is_complete_when_the_last_member_has_arrived

MT2: members with different operations add their tensors
csrc/comm/shm/meeting.cc
- if (!(OfferOf(member).topic == OfferOf(me_).topic)) return false;
C++ Meeting.shows_all_members_that_their_topics_differ

MT3: a fast member overwrites what a slow one still reads
csrc/comm/shm/meeting.h
- static_cast<size_t>(member) * 2 + (meeting_ & 1)
+ static_cast<size_t>(member) * 2
C++ OfMembers/ManyMeetings.are_complete_for_all_or_for_none/1

MT4: a rank that scales by another factor takes part
csrc/engine/meetings.cc
- before.prescale == asked.prescale &&
C++ OfRanks/EngineMeeting.leaves_an_operation_alone_that_differs/0

MT5: a rank with another dtype takes part
csrc/engine/meetings.cc
-  && before.dtype == asked.dtype
C++ OfRanks/EngineMeeting.leaves_an_operation_alone_that_differs/0

MT6: ranks that have negotiated once never meet again
csrc/engine/process_set.cc
- group->meeting->SetElsewhere(false);
+ group->meeting->SetElsewhere(true);
C++ OfRanks/EngineMeeting.performs_an_operation_that_all_ranks_know/0
""")
