"""Faults of csrc/kernels and csrc/comm: wrong numbers, the wrong memory, the wrong way."""

from __future__ import annotations

from mutants.mutant import Mutant

_NET = "C++ NetProperty.EveryKindDtypeAndShapeMatchesTheReference"
_NET_ALLREDUCE = "C++ NetProperty.EveryAllreduceAlgorithmOpAndScaleMatchesTheReference"
_NET_MOVE = "C++ NetProperty.EveryAlgorithmOfGatherAndBroadcastMatchesTheReference"
_SHM = "C++ ShmProperty.every_kind_dtype_and_shape"
_SHM_REDUCE = "C++ ShmProperty.every_reduction_and_scale"
_HIERARCHICAL = "C++ Hierarchical/EngineOps.*"

MUTANTS = (
    Mutant(
        "C3",
        "csrc/base/half.h",
        "return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);",
        "return static_cast<uint16_t>((bits + 0x8000u) >> 16);",
        "bfloat16 rounds ties away from zero",
        ("C++ HalfTest.NarrowingToBFloat16RoundsToNearestEvenAtEveryBoundary",),
    ),
    Mutant(
        "C8",
        "csrc/kernels/cpu/integer_scale.cc",
        "const bool above = value >= kEnd,",
        "const bool above = false,",
        "scaled integers beyond the largest become 0",
        ("C++ ReduceFactsTest.IntegersWrapInSumsAndSaturateInScaling",),
    ),
    Mutant(
        "C9",
        "csrc/kernels/cpu/reduce.cc",
        "if (spec.divisor != 1.0) DivideIntegers(spec.dtype, data, data, count, spec.divisor);",
        "",
        "averages of integers are sums",
        ("C++ AllDTypes/ReduceTest.*", "C++ ReduceFactsTest.*", _SHM_REDUCE),
    ),
    Mutant(
        "C10",
        "csrc/kernels/cpu/reduce.cc",
        "const char* source = static_cast<const char*>(sources[k]) + at;",
        "const char* source = static_cast<const char*>(sources[k]);",
        "scaled integers beyond one block are added from the first block again",
        ("C++ AllDTypes/ReduceTest.*", _NET_ALLREDUCE),
    ),
    Mutant(
        "C5",
        "csrc/comm/net/ring.cc",
        "return received_ == sent_ - 1 ? receive_.at : 0;",
        "return received_ == sent_ - 1 ? SIZE_MAX : 0;",
        "a ring member sends on bytes that it has not received",
        (_NET_MOVE, "C++ NetProperty.LargeTensorsWithDefaultOptionsMatchTheReference"),
    ),
    Mutant(
        "C11",
        "csrc/comm/net/gather.cc",
        "scratch + block * bytes + begin;",
        "scratch + block * bytes;",
        "a gathered sum begins anew with each piece",
        (_NET_ALLREDUCE,),
    ),
    Mutant(
        "C12",
        "csrc/comm/hierarchical/communicator.cc",
        "PartBegin(static_cast<size_t>(mine_), owner_.hosts(), owner_.host())",
        "PartBegin(static_cast<size_t>(mine_), owner_.hosts(), 0)",
        "hosts give one another their part of a 16-bit sum in the place of the first",
        ("C++ On/Hierarchical.*",),
    ),
    Mutant(
        "C29",
        "csrc/comm/hierarchical/communicator.cc",
        "return half_ ? StartReducescatterToFloat(owner_.region_, scatter_)",
        "return false ? StartReducescatterToFloat(owner_.region_, scatter_)",
        "16-bit sums of a host are read as float32",
        ("C++ On/Hierarchical.*",),
    ),
    Mutant(
        "C30",
        "csrc/comm/mpi/allreduce_impl.cc",
        "IsNative(question.dtype, op) && !IsFloating(question.dtype);",
        "IsNative(question.dtype, op);",
        "an MPI library adds floats in an order of its own",
        ("C++ MpiWay.Table",),
    ),
    Mutant(
        "C31",
        "csrc/kernels/cpu/half_simd.h",
        "const VUint32 bits = value != value ? quiet : RoundToBFloat16(value);",
        "const VUint32 bits = RoundToBFloat16(value);",
        "a NaN whose payload is full is rounded to minus zero",
        ("C++ ReduceFactsTest.ANanWhosePayloadIsFullStaysANanWhenItIsRounded",),
    ),
    Mutant(
        "C13",
        "csrc/comm/net/tree.cc",
        "wire_.Send(children_[i], data, &sent_[i], received_.at)",
        "wire_.Send(children_[i], data, &sent_[i], received_.end)",
        "a broadcast passes on bytes that have not come yet",
        (_NET_MOVE, "C++ NetProperty.LargeTensorsWithDefaultOptionsMatchTheReference"),
    ),
    Mutant(
        "C14",
        "csrc/comm/net/pairwise.cc",
        "while (receive_from_ < n && Received(receive_from_).done()) ++receive_from_;",
        "while (receive_from_ < n && Sent(receive_from_).done()) ++receive_from_;",
        "the window of receives moves on with the sends",
        (_NET, _NET_MOVE),
        hangs=True,
    ),
    Mutant(
        "C15",
        "csrc/comm/choose.cc",
        "case Algorithm::kTree: return log_n * (model.alpha + message) + log_n * bytes * "
        "model.beta;",
        "case Algorithm::kTree: return log_n * (model.alpha + message) + bytes * model.beta;",
        "a tree is thought to cost the root one message: large broadcasts never take the chain",
        ("C++ NetChoose.*",),
    ),
    Mutant(
        "C16",
        "csrc/comm/layout.cc",
        "[&](const Piece& piece, int from) { return Count(piece, from * members + me); }",
        "[&](const Piece& piece, int from) { return Count(piece, me * members + from); }",
        "an alltoall lays out what came as if it were what went",
        (_NET,),
        hangs=True,
    ),
    Mutant(
        "C17",
        "csrc/comm/shm/pipeline.cc",
        "if (out_ == mid_ || !region_->AllReached(Flag::kMid, first_ + out_ + 1)) return false;",
        "if (out_ == mid_) return false;",
        "shares are copied out before their members have reduced them",
        (_SHM_REDUCE, "C++ ShmProperty.mixed_operations_follow_one_another_without_a_barrier"),
    ),
    Mutant(
        "C18",
        "csrc/comm/shm/move.cc",
        "from == me ? static_cast<const char*>(piece_.input) + from_byte",
        "from == me ? static_cast<const char*>(piece_.input) + (from_byte - chunk_begin)",
        "a rank's own part of an alltoall of several chunks comes from the first chunk",
        (_SHM,),
    ),
    Mutant(
        "C19",
        "csrc/comm/hierarchical/communicator.cc",
        "between_.reduce.prescale = 1.0;",
        "",
        "the hierarchical allreduce scales twice",
        (_HIERARCHICAL,),
    ),
    Mutant(
        "C20",
        "csrc/comm/topology.cc",
        "if (host > 0) tree.parent = topology.hosts[(host - 1) / kLeaderFanout][0];",
        "if (host > 0) tree.parent = topology.hosts[0][0];",
        "in the negotiation tree of many hosts the first is everybody's parent",
        ("C++ Tree.*", "C++ Topology.*"),
    ),
    Mutant(
        "C21",
        "csrc/comm/mpi/choice.cc",
        "if (member.mpi == first.mpi) continue;",
        "if (member.mpi.empty() == first.mpi.empty()) continue;",
        "ranks with different MPIs are let into one job",
        ("C++ MpiVerdict.*",),
    ),
    Mutant(
        "C22",
        "csrc/comm/gpu/cut.cc",
        "if (filled > 0 && filled + bytes > room) {",
        "if (filled > 0 && filled > room) {",
        "adasum on GPUs takes more host memory than there is room for",
        ("C++ GpuCut.every_byte_is_in_one_round_and_no_round_is_larger_than_there_is_room_for",),
    ),
)
