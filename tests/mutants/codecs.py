"""Faults of encoded allreduces: csrc/kernels' codecs and csrc/comm/compressed/encoded_*."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
CD1: a codec that rounds at random rounds to nearest
csrc/kernels/cpu/codecs/qsgd.h
- const VFloat steps = Bits<VFloat>(bits & kMagnitude) * factor + draws.At(i);
+ const VFloat steps = Bits<VFloat>(bits & kMagnitude) * factor + 0.5F + 0 * draws.At(i);
C++ QsgdCodec.TheMeanOfManyDrawsIsTheElement

CD2: a step with an infinite number enters the residual of the owner
csrc/kernels/codec.cc
- if (!finite) return;
+ (void)finite;
C++ EncodedAllreduceOver.ABlockThatIsNotFiniteIsNanEverywhereAndDoesNotEnterAnyResidual

CD3: what the code of the sum loses is lost
csrc/comm/compressed/encoded_part.cc
- kernels::KeepLost(batch_.codec, {SumOf(s), nullptr, 1}, result, result, s.count(), residual);
+ std::fill_n(residual, s.count(), 0.0F);
C++ EncodedAllreduce.WhatAnOwnerContributesToItsShareIsExact
C++ EncodedAllreduceOver.AllMembersHaveTheSameBitsAndNothingIsLost

CD4: between hosts a member's part of a residual is the first one's
csrc/comm/hierarchical/communicator.cc
- if (part.residual != nullptr) part.residual += begin;
C++ EncodedAllreduceOver.AllMembersHaveTheSameBitsAndNothingIsLost

CD5: the same random numbers are drawn in every step
csrc/engine/execute/prepare.cc
- for (const uint64_t part : {coding.tensor, feedback.step, static_cast<uint64_t>(rank)})
+ for (const uint64_t part : {coding.tensor, static_cast<uint64_t>(rank)})
C++ EngineEncoded.random_numbers_depend_on_seed_step_and_name_and_on_nothing_else

CD6: a GPU adds the numbers of a block in another order
csrc/kernels/cuda/codec_blocks.cuh
- constexpr int kParts = 32;
+ constexpr int kParts = 16;
C++ GpuCodecTest.EncodesToTheBytesOfTheProcessor

CD7: the lanes of a warp do not wait for one another
csrc/kernels/cuda/codec_blocks.cuh
-     __syncwarp();
C++ GpuCodecLanes.GiveTheBytesAndValuesOfTheProcessor

CD8: a step with another member's infinite number enters the residual
csrc/comm/compressed/encoded_part.cc
- kernels::TakeBack(batch_.codec, What(s), decoded, result, s.count(), residual);
C++ EncodedAllreduceOver.ABlockThatIsNotFiniteIsNanEverywhereAndDoesNotEnterAnyResidual

CD9: the rounding of a huge number stays in the residual
csrc/kernels/codec.cc
- residual[i] = std::isfinite(before) && std::fabs(before) > rounding ? before : 0;
+ residual[i] = std::isfinite(rounding) ? before : 0;
C++ EveryCodec.NoRoundingOfHugeElementsIsTakenForAResidual

CD10: in a short block what is lost is kept where the block's codes lie
csrc/kernels/cpu/codecs/blocks.h
- for (int i = 0; i < left; ++i) args.lost[at + i] = buffer.at[PlaceOf(codec, left, i)];
+ for (int i = 0; i < left; ++i) args.lost[at + i] = buffer.at[i];
C++ EveryCodec.WhatIsLostInOnePassHasTheBitsOfSeveralOnEveryInstructionSet

CD11: a slow exchange is polled after each stretch
csrc/comm/compressed/parts_work.cc
- constexpr int kStretchesPerPoll = 4;
+ constexpr int kStretchesPerPoll = 1;
C++ EncodedParts.ASlowExchangeIsPolledLessOften

CD12: a block of huge elements is not finite
csrc/kernels/cpu/codecs/sign.h
- return sum - sum == 0 ? sum / static_cast<float>(count) : LargeMean(block, count);
+ return sum - sum == 0 ? sum / static_cast<float>(count) : NanFloat();
C++ SignCodec.IsTheMeanMagnitudeAlsoWhereTheSumOverflows
C++ EveryCodec.TheGreatestElementsStayFiniteWithTheSameBytesOnEveryInstructionSet

CD13: a lane of a GPU adds anew before another one has read the sum
csrc/kernels/cuda/codecs.cuh
- warp.Step(0, [](int) {});  // all lanes have read the sum in room.sums
C++ GpuCodecLanes.GiveTheBytesAndValuesOfTheProcessor
hangs
""")
