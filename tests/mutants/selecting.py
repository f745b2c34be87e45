"""Faults of sparse gradients: csrc/kernels/select*, csrc/comm/compressed/sparse_allreduce.cc,
and what hvdlite/adapter/compression does with them."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
SL1: a candidate must be greater than the greatest one of those before
csrc/kernels/greatest.cc
- return list[kept - 1];
+ return list[0];
C++ SelectTest.IsTheDefinitionOnEveryInstructionSetAtEveryLengthAndAddress

SL2: what is taken loses its momentum although masking is off
csrc/kernels/select.cc
-     if (forgets_) selection_.new_velocity[position] = 0;
+     if (selection_.velocity != nullptr) selection_.new_velocity[position] = 0;
C++ SelectTest.IsTheDefinitionOnEveryInstructionSetAtEveryLengthAndAddress

SL3: of equal elements the last are taken
csrc/kernels/cpu/table.h
- (~static_cast<uint64_t>(position) & kSelectMagnitude) << 1 | bits >> 31;
+ (static_cast<uint64_t>(position) ^ kSelectMagnitude ^ 1) << 1 | bits >> 31;
C++ SelectTest.TakesTheFirstOfEqualElements

SL4: a position that two ranks have sent is multiplied twice
csrc/kernels/select.cc
- zeros[pairs.positions[i]] = sums[next++] * factor;
+ zeros[pairs.positions[i]] *= factor;
C++ SpreadTest.AddsInTheOrderOfThePairsAndMultipliesOnce

SL5: a rank can have others write before their tensors
csrc/kernels/select.cc
- return at >= 0 && at < count;
+ return at < count;
C++ SpreadTest.FindsAPositionOutside

SL6: the core never selects
hvdlite/torch/compression/algebra.py
- return array.is_cpu and array.is_contiguous()
+ return False
test_torch.py::shm-2::torch_methods.the_core_sends_the_largest_elements_and_no_others

SL7: a sparse step with NaN enters the memory
hvdlite/adapter/compression/topk.py
- fine = algebra.is_finite(algebra.total(values))
+ fine = algebra.is_finite(algebra.total(algebra.zeros((1,), total)))
test_compression_methods.py::
  test_a_step_with_nan_is_seen_by_all_ranks_and_does_not_enter_the_memory

SL8: autograd uses a saved gradient that has been overwritten
hvdlite/torch/gradients.py
- OPS.framework.write_back(gradient, parameter.grad)
+ parameter.grad.data = gradient
test_torch.py::shm-2::torch_methods.autograd_is_told_that_a_gradient_has_changed

SL9: the core multiplies an encoded sum, and the adapter once more
hvdlite/adapter/compression/rounds.py
- return Scaled(algebra.from_core(output, asked.array)), residual
+ return algebra.from_core(output, asked.array), residual
test_torch.py::shm-2::torch_methods.sent_and_kept_is_the_sum_of_all_gradients

SL10: what a member's own code loses is kept where the tensor begins
csrc/comm/compressed/encoded_part.cc
- return residual == nullptr ? nullptr : residual + s.begin;
+ return residual;
C++ EncodedAllreduceOver.AllMembersHaveTheSameBitsAndNothingIsLost

SL11: in the core, a sparse step with NaN enters the memory
csrc/comm/compressed/sparse_allreduce.cc
- if (!finite && piece_.memory != nullptr) Forget(*piece_.memory);
+ if (false) Forget(*piece_.memory);
C++ SparseAllreduceOver.a_step_that_is_not_finite_is_seen_by_all_and_enters_no_memory

SL12: ranks may send different numbers of elements
csrc/engine/negotiate/validate.cc
- a.taken != b.taken ||
+
C++ EngineSparse.ranks_agree_about_the_number_of_elements

SL13: what has been selected from stays in the result
csrc/kernels/select.cc
- if (selection_.cleared != nullptr)
+ if (false)
C++ SelectTest.IsTheDefinitionOnEveryInstructionSetAtEveryLengthAndAddress

SL14: a bias with NaN enters its momentum
hvdlite/adapter/hooks/momenta.py
- if fine or are_finite([result]):
+ if True:
test_torch.py::shm-2::torch_methods.a_bias_with_nan_keeps_the_momentum_that_it_had_under_dgc

SL15: a velocity that enters the memory is that of the step before
hvdlite/adapter/hooks/momenta.py
- self._method.keep(entry.label, {"velocity": velocity})
+ pass
test_torch.py::shm-2::torch_methods.a_bias_with_nan_keeps_the_momentum_that_it_had_under_dgc

SL16: a bias with momentum is not submitted by its hook
hvdlite/adapter/hooks/reducer.py
- entry.momentum = part.momentum
+ entry.momentum = None
test_torch.py::shm-2::torch_methods.what_dgc_leaves_dense_goes_as_it_is

SL17: elements of the last bin stand among those above
csrc/kernels/greatest.cc
- found_above += static_cast<size_t>(bin > last);
+ found_above += static_cast<size_t>(bin >= last);
C++ KeepGreatest.*

SL18: gradients whose sum overflows do not enter their momentum
hvdlite/torch/compression/batched.py
- return bool(total.isfinite()) or all(bool(each.isfinite().all()) for each in gradients)
+ return bool(total.isfinite())
test_torch_batched.py::test_nan_and_infinity_are_found_among_many_gradients
""")
