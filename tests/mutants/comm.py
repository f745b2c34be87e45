"""Faults of csrc/kernels and csrc/comm: wrong numbers, the wrong memory, the wrong way."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
C3: bfloat16 rounds ties away from zero
csrc/base/half.h
- return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
+ return static_cast<uint16_t>((bits + 0x8000u) >> 16);
C++ HalfTest.NarrowingToBFloat16RoundsToNearestEvenAtEveryBoundary

C32: the results of a part of an encoded batch lie where those of the next one lie
csrc/comm/compressed/encoded_allreduce.cc
-       next.results += part->result_bytes();
C++ EncodedAllreduce.ALargeBatchGoesInPartsAndHasTheSameBits

C33: a member does not get its own block
csrc/comm/net/pairwise.cc
- Copy(source_, from.at, target_, to.at, bytes);
+
C++ Exchanges.*

C34: a late member keeps back what the others exchange next
csrc/comm/net/pairwise.cc
- HVDLITE_RETURN_IF_ERROR(blocks->Receive(&wire_, number++, most, &counts_));
+ if (number == ended()) HVDLITE_RETURN_IF_ERROR(blocks->Receive(&wire_, number++, most, &counts_));
C++ Exchanges.a_late_member_does_not_keep_back_what_the_others_exchange_next

C35: a part is summed before all of its contributions are there
csrc/comm/compressed/encoded_allreduce.cc
- if (summed_ < encoded_ && contributed_[summed_] <= ended()) {
+ if (summed_ < encoded_ && contributed_[summed_] <= ended() + 1) {
C++ EncodedAllreduce.*

C36: whole tensors are added up before all contributions are there
csrc/comm/compressed/parts_work.cc
- return exchanges_->ended() > 0 ? &among_them_->Results() : nullptr;
+ return &among_them_->Results();
C++ SparseAllreduce.*

C8: scaled integers beyond the largest become 0
csrc/kernels/cpu/integer_scale.cc
- const bool above = value >= kEnd,
+ const bool above = false,
C++ ReduceFactsTest.IntegersWrapInSumsAndSaturateInScaling

C9: averages of integers are sums
csrc/kernels/cpu/reduce.cc
- if (spec.divisor != 1.0) DivideIntegers(spec.dtype, data, data, count, spec.divisor);
C++ AllDTypes/ReduceTest.*
C++ ReduceFactsTest.*
C++ ShmProperty.every_reduction_and_scale

C10: scaled integers beyond one block are added from the first block again
csrc/kernels/cpu/reduce.cc
- const char* source = static_cast<const char*>(sources[k]) + at;
+ const char* source = static_cast<const char*>(sources[k]);
C++ AllDTypes/ReduceTest.*
C++ NetProperty.EveryAllreduceAlgorithmOpAndScaleMatchesTheReference

C5: a ring member sends on bytes that it has not received
csrc/comm/net/ring.cc
- return received_ == sent_ - 1 ? receive_.at : 0;
+ return received_ == sent_ - 1 ? SIZE_MAX : 0;
C++ NetProperty.EveryAlgorithmOfGatherAndBroadcastMatchesTheReference
C++ NetProperty.LargeTensorsWithDefaultOptionsMatchTheReference

C11: a gathered sum begins anew with each piece
csrc/comm/net/gather.cc
- scratch + block * bytes + begin;
+ scratch + block * bytes;
C++ NetProperty.EveryAllreduceAlgorithmOpAndScaleMatchesTheReference

C12: hosts give one another their part of a 16-bit sum in the place of the first
csrc/comm/hierarchical/communicator.cc
- PartBegin(static_cast<size_t>(mine_), owner_.hosts(), owner_.host())
+ PartBegin(static_cast<size_t>(mine_), owner_.hosts(), 0)
C++ On/Hierarchical.*

C29: 16-bit sums of a host are read as float32
csrc/comm/hierarchical/communicator.cc
- return half_ ? StartReducescatterToFloat(owner_.region_, scatter_)
+ return false ? StartReducescatterToFloat(owner_.region_, scatter_)
C++ On/Hierarchical.*

C30: an MPI library adds floats in an order of its own
csrc/comm/mpi/allreduce_impl.cc
- IsNative(question.dtype, op) && !IsFloating(question.dtype);
+ IsNative(question.dtype, op);
C++ MpiWay.Table

C31: a NaN whose payload is full is rounded to minus zero
csrc/kernels/cpu/half_simd.h
- const VUint32 bits = value != value ? quiet : RoundToBFloat16(value);
+ const VUint32 bits = RoundToBFloat16(value);
C++ ReduceFactsTest.ANanWhosePayloadIsFullStaysANanWhenItIsRounded

C13: a broadcast passes on bytes that have not come yet
csrc/comm/net/tree.cc
- wire_.Send(children_[i], data, &sent_[i], received_.at)
+ wire_.Send(children_[i], data, &sent_[i], received_.end)
C++ NetProperty.EveryAlgorithmOfGatherAndBroadcastMatchesTheReference
C++ NetProperty.LargeTensorsWithDefaultOptionsMatchTheReference

C14: the window of receives moves on with the sends
csrc/comm/net/pairwise.cc
- if (received == number && Received(receive_from_).done()) ++received;
+ if (received == number && Sent(receive_from_).done()) ++received;
C++ NetProperty.EveryKindDtypeAndShapeMatchesTheReference
C++ NetProperty.EveryAlgorithmOfGatherAndBroadcastMatchesTheReference
hangs

C15: a tree is thought to cost the root one message: large broadcasts never take the chain
csrc/comm/choose.cc
- case Algorithm::kTree: return log_n * (model.alpha + message) + log_n * bytes * model.beta;
+ case Algorithm::kTree: return log_n * (model.alpha + message) + bytes * model.beta;
C++ NetChoose.*

C16: an alltoall lays out what came as if it were what went
csrc/comm/layout.cc
- [&](const Piece& piece, int from) { return Count(piece, from * members + me); }
+ [&](const Piece& piece, int from) { return Count(piece, me * members + from); }
C++ NetProperty.EveryKindDtypeAndShapeMatchesTheReference
hangs

C17: shares are copied out before their members have reduced them
csrc/comm/shm/pipeline.cc
- if (out_ == mid_ || !region_->AllReached(Flag::kMid, first_ + out_ + 1)) return false;
+ if (out_ == mid_) return false;
C++ ShmProperty.every_reduction_and_scale
C++ ShmProperty.mixed_operations_follow_one_another_without_a_barrier

C18: a rank's own part of an alltoall of several chunks comes from the first chunk
csrc/comm/shm/move.cc
- from == me ? static_cast<const char*>(piece_.input) + from_byte
+ from == me ? static_cast<const char*>(piece_.input) + (from_byte - chunk_begin)
C++ ShmProperty.every_kind_dtype_and_shape

C19: the hierarchical allreduce scales twice
csrc/comm/hierarchical/communicator.cc
- between_.reduce.prescale = 1.0;
C++ Hierarchical/EngineOps.*

C20: in the negotiation tree of many hosts the first is everybody's parent
csrc/comm/topology.cc
- if (host > 0) tree.parent = topology.hosts[(host - 1) / kLeaderFanout][0];
+ if (host > 0) tree.parent = topology.hosts[0][0];
C++ Tree.*
C++ Topology.*

C21: ranks with different MPIs are let into one job
csrc/comm/mpi/choice.cc
- if (member.mpi == first.mpi) continue;
+ if (member.mpi.empty() == first.mpi.empty()) continue;
C++ MpiVerdict.*

C22: adasum on GPUs takes more host memory than there is room for
csrc/comm/gpu/cut.cc
- if (filled > 0 && filled + bytes > room) {
+ if (filled > 0 && filled > room) {
C++ GpuCut.every_byte_is_in_one_round_and_no_round_is_larger_than_there_is_room_for
""")
