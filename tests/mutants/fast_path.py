"""Faults of the fast path, on which small blocking allreduces happen without negotiation."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
MT1: a member withdraws from a complete exchange
csrc/comm/shm/fast_exchange.cc
- while (seen < Wanted()) {
+ while (seen > 0) {
C++ FastExchange.is_complete_when_the_last_member_has_arrived

MT2: members with different operations add their tensors
csrc/comm/shm/fast_exchange.cc
- if (!(OfferOf(member).topic == OfferOf(me_).topic)) return false;
C++ FastExchange.shows_all_members_that_their_topics_differ

MT3: a fast member overwrites what a slow one still reads
csrc/comm/shm/fast_exchange.h
- static_cast<size_t>(member) * 2 + (completed_ & 1)
+ static_cast<size_t>(member) * 2
C++ OfMembers/ManyFastExchanges.are_complete_for_all_or_for_none/1

MT4: a rank that scales by another factor takes part
csrc/engine/known_operation.cc
- before.prescale == asked.prescale &&
C++ OfRanks/EngineFastPath.leaves_an_operation_alone_that_differs/0

MT5: a rank with another dtype takes part
csrc/engine/known_operation.cc
-  && before.dtype == asked.dtype
C++ OfRanks/EngineFastPath.leaves_an_operation_alone_that_differs/0

MT6: ranks that have negotiated once never take the fast path again
csrc/engine/process_set.cc
- group->fast_exchange->SetElsewhere(false);
+ group->fast_exchange->SetElsewhere(true);
C++ OfRanks/EngineFastPath.performs_an_operation_that_all_ranks_know/0

HD1: allreduces in place start on the long way
hvdlite/core/engine.py
- start_in_place = _core.start_in_place
- submit =
+ start_in_place: Callable[..., Any] = lambda *given: None
+ submit =
test_conformance.py::shm-2::
  allreduce.a_handle_in_place_stands_for_its_tensor_and_is_taken_once

UN1: allreduces without a name have one number, whatever they ask for
csrc/engine/known_operation.cc
- latest_.push_back({next_++, request});
+ latest_.push_back({next_, request});
C++ OfRanks/EngineFastPath.ranks_that_ask_for_others_without_a_name_are_told_so/0
""")
