"""Faults of csrc/engine: agreement, batches, ends."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
C1: ranks need not agree about postscale_factor
csrc/engine/negotiate/validate.cc
- a.prescale != b.prescale || a.postscale != b.postscale ||
+ a.prescale != b.prescale ||
C++ Validate.every_field_that_must_agree_is_told_apart

C2: a slot remembers the zero rows of members that had joined
csrc/engine/negotiate/decide.cc
- const bool remember = request.cacheable && !(anybody_joined && RowsDiffer(request.kind));
+ const bool remember = request.cacheable;
C++ Trees/AgreementTest.a_slot_stands_for_what_was_asked_before_somebody_joined/*

C6: whoever leaves while others never ask for the same is waited for for ever
csrc/engine/negotiate/decide.cc
- if (!promised || leaving_.size() == ranks_.size() || now - leaving_since_ > kAnnouncedGrace) {
+ if (!promised || leaving_.size() == ranks_.size()) {
C++ Trees/AgreementTest.shutdown_waits_two_seconds_for_what_others_never_announce/*

E1: a group with one disagreement is reduced in part
csrc/engine/negotiate/decide.cc
- if (!all_agree) FailWholeGroups(ready, &verdicts);
C++ Hosts/EngineVerdict.groups_are_ready_and_fail_together/*

E2: a group is ready without its last member
csrc/engine/negotiate/ledger.cc
- if (group.ready.size() < said.group_size) return;
+ if (group.ready.size() + 1 < said.group_size) return;
C++ Ledger.*

E3: who asks by slot for what others have changed is taken to agree with them
csrc/engine/negotiate/ledger.cc
- if (tally->draft) Record(tally, member, RequestOf(*tally->remembered, member, members_));
C++ Ledger.*
C++ Trees/AgreementTest.*

E4: a slot is evicted while an operation uses it
csrc/engine/negotiate/ledger.cc
- if (tally->present == 0) idle.push_back(tally);
+ idle.push_back(tally);
C++ Ledger.a_slot_in_use_is_not_evicted

E5: the cache forgets what was used last
csrc/engine/negotiate/ledger.cc
- return a->last_used < b->last_used;
+ return a->last_used > b->last_used;
C++ Ledger.the_least_recently_used_slots_go_first_and_are_known_until_all_have_forgotten_them

E6: tensors of other scale factors travel in one batch
csrc/engine/fuse/plan.cc
- a.prescale == b.prescale && a.postscale == b.postscale &&
+ a.prescale == b.prescale &&
C++ Plan.whatever_tells_two_operations_apart_keeps_them_apart

E7: a batch grows beyond the threshold
csrc/engine/fuse/plan.cc
- match->bytes += bytes;
C++ Plan.equal_ones_travel_together_up_to_the_threshold
C++ Plan.everything_is_planned_once_and_no_batch_is_too_large

E8: after join() a rank can never submit anything again
csrc/engine/queue/inbox.cc
- if (ended->request.kind == OpKind::kJoin) joining_ = false;
C++ Inbox.after_join_nothing_is_taken_until_it_is_over

E9: what ended a job is overwritten by what its end caused
csrc/engine/queue/inbox.cc
- if (!closed_) reason_ = reason;
+ reason_ = reason;
C++ Inbox.closing_ends_what_is_outstanding_and_refuses_the_rest_with_the_first_reason

E10: a postscale_factor alone is not sent
csrc/engine/message.cc
- if (prescale != 1.0 || postscale != 1.0) flags |= kScaled;
+ if (prescale != 1.0) flags |= kScaled;
C++ Message.requests_come_back_as_they_were

E11: a known name is announced by its slot although it means something else by now
csrc/engine/process_set.cc
- remembered.asked && remembered.mine.SameExceptName(request);
+ remembered.asked;
C++ Hosts/EngineVerdict.*
C++ Net/EngineOps.allgather_whose_rows_change_every_time/*

E12: a frozen rank is never noticed
csrc/engine/observe/silence.h
- Silence{sign, silence.span + (counts ? passed_ : 0)}
+ Silence{sign, silence.span}
C++ SilencesTest.lasts_from_the_last_sign_on

E14: a machine that was suspended as a whole accuses its ranks
csrc/engine/observe/silence.h
- passed_ = std::min(now - last_look_, longest_step_);
+ passed_ = now - last_look_;
C++ SilencesTest.does_not_count_the_time_in_which_this_rank_did_not_look

E13: ids of removed process sets are used again, youngest first: a stale one means another set
csrc/engine/sets.cc
- free_ids_.push_back(set->id);
+ free_ids_.insert(free_ids_.begin(), set->id);
C++ Shm/EngineOps.ids_of_removed_sets_are_used_again_oldest_first/*

E31: what no thread waits for is not carried out before the next tick
csrc/engine/turn.cc
- } else if (!will_wait) {
-     gate_.Open();
+ } else if (!will_wait) {
C++ Ways/TurnTest.the_background_thread_carries_out_what_no_thread_waits_for/*
hangs

E32: the last thread that waits leaves the rest to no other
csrc/engine/turn.cc
-       urgent_.load(std::memory_order_seq_cst) > 0) {
-     gate_.Open();
+       urgent_.load(std::memory_order_seq_cst) > 0) {
C++ Ways/TurnTest.the_last_waiter_leaves_the_rest_to_the_background_thread/*
hangs

E33: a driver that waits for news keeps the turn from a thread that wants to end the job
csrc/engine/turn.cc
- if (wanted_.load(std::memory_order_seq_cst) > 0 || !to_tell_.empty()) return Driven::kGaveWay;
+ if (!to_tell_.empty()) return Driven::kGaveWay;
C++ Ways/TurnTest.a_driver_that_waits_for_news_gives_way/*
hangs

E34: the background thread that is just being stopped sleeps to the next tick
csrc/engine/turn.cc
- for (uint32_t ticket = gate_.Ticket(); !stopping_; ticket = gate_.Ticket()) {
-     const bool wanted
+ while (!stopping_) {
+     jitter_();
+     const uint32_t ticket = gate_.Ticket();
+     const bool wanted
C++ Ways/TurnTest.the_background_thread_stops_at_once/*

E15: the timeline shows members below a relay as if all had asked when the last did
csrc/engine/negotiate/relay.cc
- partial.spelled_out |= watching_;
C++ Trees/AgreementTest.the_root_knows_at_once_who_has_asked_where_arrivals_are_watched/*

E16: the timeline loses the rank that was so fast that it asked for the next round
csrc/engine/observe/timeline.cc
-   for (const auto& [rank, at] : over.arrived) ArriveOpen(name, over.phase, rank, at, now);
C++ TimelineFile.a_rank_that_asks_again_before_the_round_is_over_here_begins_the_next_one

E17: a member's result of an alltoall has the rows that it has sent
csrc/engine/shapes.cc
- received.push_back(agreed.rows[from * n + static_cast<size_t>(member)]);
+ received.push_back(agreed.rows[static_cast<size_t>(member) * n + from]);
C++ Shapes.*

E18: the last members of a reducescatter get the first one's number of rows
csrc/engine/shapes.cc
- shape[0] = ShareOfRows(shape[0], members, member);
+ shape[0] = ShareOfRows(shape[0], members, 0);
C++ Shapes.*

E19: a root of -1 from the wire is looked up
csrc/engine/shapes.cc
- return !Has(request.kind, kRooted) || (request.root >= 0 && request.root < members);
+ return !Has(request.kind, kRooted) || request.root < members;
C++ Shapes.*

E20: an alltoall may be part of a group, whose other members may be fused
csrc/base/ops.def
- kExchanged, 0)
+ kExchanged, kGroups)
C++ Hosts/EngineVerdict.a_group_of_what_cannot_be_grouped_is_refused/*

E21: a gradient on a GPU is kept for more for ever
csrc/engine/fuse/gather.cc
- if (now.some_leave || waited >= options.longest) return false;
+ if (now.some_leave) return false;
C++ Gather.*

E22: operations of a member that leaves are kept for more
csrc/engine/negotiate/decide.cc
- !leaving_.empty() || ledger_.anyone_joined()};
+ ledger_.anyone_joined()};
C++ AgreementGather.*

E23: a thread that waits for a single result waits for the device
csrc/engine/process_set.cc
- if (waited_for && !readiness.more) return false;
C++ EngineGpuBatch.waits_for_more_while_the_device_is_behind

E24: what a stream waits for is forgotten
csrc/engine/complete/pending_batch.h
- if (held.ok() && device::IsOneStream(stream)) waits_ = stream;
C++ EngineGpuBatch.waits_for_each_producer_once_however_many_tensors_it_has_made

E25: a rank obeys an abort before it has read an error that all ranks were sent
csrc/engine/engine.cc
- if (decision.kind == Down::kError) Begin(
+ if (decision.kind == Down::kAlive) Begin(
C++ EngineEnd.an_error_of_all_ranks_comes_before_the_abort_of_one_that_has_had_it

E26: the host's abort word overtakes a decision that the root is sending
csrc/engine/sets.cc
- return set->undecided > 0 && parent != nullptr &&
+ return set->undecided > 1000 && parent != nullptr &&
C++ EngineAbort.*

E27: a rank that waits looks for dead neighbours with each tick only
csrc/engine/tick.cc
- Nanos nap = waits_for_neighbours ?
+ Nanos nap = waits_for_neighbours && now < 0 ?
C++ EngineDeath.*

D1: an average on a GPU is off by one rounding
csrc/kernels/cuda/move.cuh
- return Corrected(value, Corrected(value, product));
+ return product;
C++ MoveTest.DividesEveryMantissaAsTheProcessorDoes
""")
