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

LI1: a list that meets a single request is not taken apart
csrc/engine/negotiate/ledger.cc
- if (lists_with_.empty()) return;
+ if (tally->present >= 0) return;
C++ Ledger.a_list_meets_other_lists_and_single_requests_for_its_tensors

LI2: a list does not see that one of its tensors is pending alone
csrc/engine/negotiate/ledger.cc
- tally->pending_alone > 0 ||
C++ Ledger.lists_in_any_pieces_always_make_all_tensors_ready

LI3: a list that is carried out tensor by tensor ends with its first tensor
csrc/engine/engine.cc
- ++entry->ended < entry->request.group_size
+ ++entry->ended < 1
C++ Hosts/EngineLists.ranks_that_cut_their_lists_in_other_places_get_the_same_sums/0

LI4: a list's tensor may be submitted a second time
csrc/engine/queue/inbox.cc
- if (!in_lists_.empty() && in_lists_.count(request.name) > 0) return Duplicate(request);
C++ Hosts/EngineLists.a_tensor_that_is_in_flight_already_is_refused_with_its_list/0

LI5: gradients that wait for the rest of their list are forgotten
hvdlite/adapter/hooks/reducer.py
- self._go((number,) for number in self._direct.flush())
+ self._go(())
test_torch.py::shm-2::torch_life.ranks_may_lack_gradients_or_have_them_in_another_order

LI7: gradients of a list that cannot be lent are forgotten
hvdlite/adapter/hooks/reducer.py
- for number in self._direct.flush())
+ for number in self._direct.flush() if number < 0)
test_torch.py::shm-2::torch_life.a_gradient_of_a_list_need_not_stay_as_it_was

LI6: hooks never form lists
hvdlite/adapter/hooks/reducer.py
- self._direct.form_lists()
test_torch.py::shm-2::torch_life.small_gradients_are_one_request

ME1: ranks on two hosts that offer different operations add their tensors
csrc/engine/meeting.cc
-  && their_topic_ == part_.topic &&
+  &&
C++ Meeting.offers_that_differ_are_void_for_both

ME3: a rank that comes late keeps the other one from negotiating
csrc/engine/meeting.h
- (busy || now - heard_at_ >= kPatience)
+ busy
C++ Meeting.declines_for_a_member_that_is_busy_or_late_and_never_for_one_that_has_come

ME4: an offer in vain is negotiated without a number
csrc/engine/fast_path.cc
- if (!entry->request.cacheable) set->inbox.GiveDefaultName(entry);
+
C++ EngineMeeting.an_offer_in_vain_takes_its_number_then
hangs

ME5: an offer whose call has ended writes its result
csrc/engine/meeting.cc
- if (performed && !abandoned_) {
+ if (performed) {
C++ Meeting.an_abandoned_offer_is_kept_and_its_result_is_written_nowhere

ME6: a short first part has a frame of its own, but not its check word
csrc/transport/checked.cc
- Crc32c(Crc32c(0, parts[0].iov_base, first), parts[1].iov_base, whole - first)
+ Crc32c(0, parts[1].iov_base, whole - first)
C++ Checked.carries_a_short_part_and_a_long_one_in_one_frame

IP20: ranks that reduce in place on the fast path do not wait for one another
csrc/engine/fast_path.cc
- while (!place.AllFinished()) {
+ while (false) {
C++ OfRanks/EngineFastPath.reduces_in_place_what_all_ranks_share/0

IP21: a rank whose peer dies while it reduces in place hands its memory out again
csrc/comm/shm/fast_in_place.cc
- if (accepted_ && !AllFinished()) {
+ if (false) {
C++ FastInPlace.retires_the_memory_that_others_may_still_write

ME7: a connection does not say that it holds the rest of a frame
csrc/transport/checked.h
- return kept_right_ > 0 || ahead_end_ - ahead_begin_ >= kHeaderBytes;
+ return ahead_end_ - ahead_begin_ >= kHeaderBytes;
C++ Checked.says_that_it_holds_the_rest_of_a_frame
""")
