"""Faults of hvdlite/torch, and of the policies in hvdlite/adapter that it shares with others."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
AU1: auto keeps a compression that makes no step shorter
hvdlite/adapter/compression/choosing.py
-     return candidate if medians[candidate] <= (1.0 - LEAST_GAIN_OF_STEP) * medians[None] else None
+     return candidate
test_compression_auto.py::test_what_makes_no_step_shorter_is_dropped

AU3: auto tries a compression that makes no tensor shorter
hvdlite/adapter/compression/choosing.py
-     return measured.dense is not None and _is_faster(
-         measured.compressed[number].at(count), measured.dense.at(count)
-     )
+     return measured.dense is not None
test_compression_auto.py::test_a_fast_network_gets_nothing_and_no_trial

AU2: auto decides anew on each rank: the ranks do not agree about their measurements
hvdlite/adapter/compression/auto.py
-     return [float(each) for each in largest]
+     return list(seconds)
test_torch.py::net-2::compressors.auto_measures_the_network_and_leaves_one_host_alone

R1: a gradient that nobody has is announced as present: weight decay moves what took no part
hvdlite/adapter/hooks/reducer.py
-                 lacking.add(entry.place)
+                 pass
test_torch.py::shm-2::torch_equivalence.with_a_sparse_embedding
test_torch.py::shm-2::torch_equivalence.with_parameters_that_get_no_gradient_in_a_step

R2: no gradient leaves by its native hook: all of them take the long way
hvdlite/adapter/hooks/reducer.py
-         self._direct.permit(
-             number, self.entries[number].directly and self._aggregation.travels_at_once(number)
-         )
+         self._direct.permit(number, False)
test_torch.py::shm-2::torch_ways.dense_gradients_leave_by_their_native_hooks

R3: after an exception in a step the passes of the old one count for the next
hvdlite/adapter/hooks/reducer.py
-         self._started.clear()
-         self._sparse.clear()
-         self._momenta.forget()
-         self._aggregation.reset()
+         self._started.clear()
+         self._sparse.clear()
+         self._momenta.forget()
test_torch.py::shm-2::torch_misuse.too_many_backward_passes_are_an_error
test_torch.py::shm-2::torch_misuse.a_failure_in_a_hook_surfaces_in_step

R4: sparse_as_dense returns a gradient of another kind
hvdlite/torch/gradients.py
- .to_sparse(like.sparse_dim())
+ .to_sparse()
test_torch.py::shm-2::torch_gradients.keeps_how_many_of_its_dimensions_are_sparse

R5: ranks that start differently are told so only if the first element differs
hvdlite/torch/framework.py
- flat[:: max(1, flat.numel() // most)]
+ flat[:1]
test_torch.py::shm-2::torch_misuse.ranks_that_start_with_different_parameters_are_told

R6: an optimizer that was replaced goes on reducing
hvdlite/torch/gradients.py
-             handle.remove()
test_torch.py::shm-2::torch_life.one_that_is_made_anew_for_the_same_model_takes_over

R7: gradients that the native hook refuses are reduced in step() only: nothing overlaps
hvdlite/adapter/hooks/reducer.py
-             living.arrived(number)
-
-     return hook
+             pass
+
+     return hook
test_torch.py::shm-2::torch_misuse.zero_grad_between_backward_and_step_is_an_error
test_torch.py::shm-2::torch_misuse.too_many_backward_passes_are_an_error

R8: members of a group leave alone by the native hook
hvdlite/adapter/hooks/reducer.py
-             for number in members:
-                 self._update_hook(number)
test_torch.py::shm-2::torch_life.members_of_a_group_do_not_leave_alone

R9: what a rank lacks of a sparse gradient is never made up
hvdlite/adapter/hooks/reducer.py
-                 if not dimensions and first != presence.DENSE:
+                 if first != presence.DENSE:
test_torch.py::shm-2::
  torch_absent.where_only_some_ranks_have_a_sparse_gradient_the_others_count_as_zeros
hangs

R10: a gradient that is dense on one rank and sparse on another waits for ever
hvdlite/adapter/agreement/presence_exchange.py
-             self._refuse(found.of_both_kinds, mine)
+             pass
test_torch.py::shm-2::
  torch_absent.a_gradient_that_is_dense_on_one_rank_and_sparse_on_another_is_named
hangs

A7: a parameter that one rank has thawed is noticed in the first step in which it has a gradient
hvdlite/adapter/agreement/presence.py
-             if first != FROZEN:
+             if first == DENSE:
test_presence.py::test_all_ranks_conclude_the_same

O1: the compression's memory is not in the checkpoint
hvdlite/torch/distributed_optimizer.py
- return {**state, "compression": memory} if memory else state
+ return state
test_torch.py::shm-2::torch_compression.its_memory_is_part_of_the_checkpoint

O2: after load_state_dict() gradients under way are those of the step before
hvdlite/torch/distributed_optimizer.py
-         self._hvd.forget()
-         memory = state_dict.get
+         memory = state_dict.get
test_torch.py::shm-2::torch_misuse.too_many_backward_passes_are_an_error

O3: layers that thaw are never reduced
hvdlite/adapter/hooks/reducer.py
-         if self._frozen:
-             self.thaw()
test_torch.py::shm-2::torch_life.layers_that_thaw_later_are_reduced_too

O4: skip_synchronize() never ends
hvdlite/torch/distributed_optimizer.py
-         finally:
-             self._hvd.synchronizes = True
+         finally:
+             pass
test_torch.py::shm-2::torch_misuse.step_after_synchronize_warns_exactly_once
test_torch.py::shm-2::torch_equivalence.with_clipping_of_the_reduced_gradient

O5: gradient_predivide_factor has no effect
hvdlite/adapter/step.py
- factor = float(gradient_predivide_factor)
+ factor = 1.0
test_torch.py::shm-2::torch_gradients.does_not_overflow_where_it_is_divided_before_the_sum

O6: gradients are multiplied by gradient_predivide_factor and never divided
hvdlite/adapter/step.py
- prescale=1.0 / factor,
+ prescale=1.0,
test_torch.py::shm-2::torch_equivalence.with_options_that_change_the_way_but_not_the_result

O7: an optimizer that evaluates its closure twice reduces twice
hvdlite/torch/distributed_optimizer.py
-             if calls > 1:
-                 raise RuntimeError(CLOSURE)
test_torch.py::shm-2::torch_misuse.an_optimizer_that_evaluates_its_closure_twice_is_refused

O8: after a step that a scaler has skipped, a rank without a batch takes no part in the next
hvdlite/adapter/hooks/reducer.py
-         if not self.synchronized or (
-             self.synchronized == "by a scaler" and step is not self._scaled
-         ):
+         if not self.synchronized:
test_torch.py::shm-2::torch_absent.a_rank_without_a_batch_takes_part_in_a_scalers_step
hangs

O9: a parameter that is added later without a name is refused
hvdlite/adapter/hooks/reducer.py
-             pairs = []  # added later, without a name
+             pass
test_adapter.py::test_parameters_that_are_added_later_keep_the_names_of_the_others

O10: a state that has become longer since its copy ends the job
hvdlite/adapter/containers.py
-  and len(own) == len(value):
+ :
test_adapter.py::test_containers_keep_their_kinds_and_meet_what_was_there

S1: a state of another dtype is kept
hvdlite/torch/distributed_optimizer.py
-  and own.dtype == value.dtype
test_torch.py::shm-2::torch_functions.the_state_has_the_dtype_that_the_root_keeps_it_in

S2: no gradients of zeros before the first step
hvdlite/torch/distributed_optimizer.py
-                 parameter.grad = torch.zeros_like(parameter)
+                 pass
test_torch.py::shm-2::torch_functions.options_keep_their_python_types

S6: a schedule that was made on the wrapped optimizer changes groups that nobody trains with
hvdlite/torch/distributed_optimizer.py
-             optimizer.__dict__["param_groups"] = self._groups
+             pass
test_torch.py::shm-2::
  torch_life.what_was_made_on_the_wrapped_optimizer_goes_on_after_a_checkpoint_is_loaded

S3: of a state_dict only the first tensor is broadcast
hvdlite/torch/functions.py
-         named = sorted(params.items())
+         named = [(None, p) for p in params.values()]
+         named = named[:1]
test_torch.py::shm-2::torch_functions.parameters_come_from_a_state_dict_or_a_list

S4: the variance of all batches leaves out how far their means are apart
hvdlite/torch/sync_batch_norm.py
- (counts * (variances + (means - mean) ** 2)).sum(0) / total
+ (counts * variances).sum(0) / total
test_torch.py::shm-2::torch_batch_norm.forward_backward_and_statistics_are_those_of_the_whole_batch

S5: averages of sparse tensors are sums
hvdlite/torch/sparse.py
-         if op == Average:
-             values = values / members
test_torch.py::shm-2::torch_tensors.sparse_tensors_add_up
test_torch.py::shm-2::torch_equivalence.with_a_sparse_embedding

A1: too many backward passes are not noticed
hvdlite/adapter/hooks/aggregation.py
-             if left < 0:
-                 raise AssertionError(_TOO_MANY)
test_adapter.py::test_a_gradient_travels_after_its_last_pass

A2: a group travels with its first member
hvdlite/adapter/hooks/aggregation.py
-             if self._waiting[unit]:
-                 return ()
test_adapter.py::test_a_group_travels_with_its_last_member

A3: what was compressed stays in 16 bits
hvdlite/adapter/compression/casts.py
- return tensor if self._framework.dtype(tensor) == ctx else self._framework.cast(tensor, ctx)
+ return tensor
test_torch.py::shm-2::collectives.compression_keeps_the_dtype_and_leaves_integers_alone

A4: the gradient of a reducescatter of sums is too small
hvdlite/core/gradients.py
-         factor *= call.process_set.size() or 1
+         pass
test_torch.py::shm-2::gradients.of_reducescatter_is_the_allgather

A5: after shutdown() and init() optimizers of ranks that made others before have other names
hvdlite/adapter/names.py
-         _counted_in, _count = era, 0
+         _counted_in = era
test_adapter.py::test_optimizers_are_counted_from_each_init_on

A6: ranks that train other parameters wait for each other for ever
hvdlite/adapter/agreement/divergence.py
-             if mine != theirs:
-                 return
+             if False:
+                 return
test_adapter.py::test_a_difference_has_a_sentence

F3: with a remainder the last gradients are in no group
hvdlite/adapter/step.py
- ends = [each * (i + 1) + min(i + 1, odd) for i in range(count)]
+ ends = [each * (i + 1) for i in range(count)]
test_adapter.py::test_gradients_are_grouped_by_a_number_or_by_lists

SF1: an average by factors is a sum
hvdlite/torch/factors/reducer.py
- return result if scale == 1.0 else result.mul_(scale)
+ return result
test_torch.py::shm-2::torch_factors.ranks_may_have_batches_of_different_sizes

SF2: a weight that is used outside its layer lacks a part of its gradient
hvdlite/torch/factors/reducer.py
- if not _is_clear(self._gradients.of(parameter)):
+ if False:
test_torch.py::shm-2::torch_factors.a_weight_that_is_used_elsewhere_is_noticed

SF3: factors travel where they are more bytes
hvdlite/adapter/local/factors.py
- return bytes_of_factors(weight, rows, element, ranks) < bytes_of_allreduce(weight, ranks)
+ return ranks > 1
test_factors.py::test_factors_travel_where_they_are_fewer_bytes

ST1: parts of a strategy that do not go together are taken
hvdlite/adapter/strategy/strategy.py
- if local and beside:
+ if local and beside and not compression:
test_strategy.py::test_parts_that_do_not_go_together_are_refused_with_the_reason

ST2: an optimizer is made without what its strategy asks for
hvdlite/adapter/strategy/strategy.py
- result = distribute(optimizer, **{**given, **asked})
+ result = distribute(optimizer, **given)
test_torch.py::shm-2::torch_by_strategy.a_strategy_takes_the_way_that_it_names

ST3: all ranks say the strategy
hvdlite/adapter/announcing.py
- if engine.members_of(process_set)[:1] == [engine.rank()] and sys.stderr is not None:
+ if engine.rank() in engine.members_of(process_set) and sys.stderr is not None:
test_torch.py::shm-2::torch_by_strategy.rank_0_says_the_strategy_once

DL1: sync() behind an average of DiLoCo makes one more outer step
hvdlite/adapter/local/outer.py
- moved = ops.any(ops.not_equal(gradient, 0))
+ moved = ops.any(ops.equal(gradient, gradient))
test_local_steps.py::test_a_tensor_that_no_rank_has_moved_stays

LS1: gradients of the first local step are still sent
hvdlite/torch/strategies/averaging.py
- if not (self._is_local and self._takes_part):
+ if not self._takes_part:
test_torch.py::shm-2::torch_strategies.gradients_stay_where_they_are_after_the_synchronous_steps

LS3: a layer that was frozen between two averages is in none of them
hvdlite/torch/strategies/averaging.py
- parameter.requires_grad or number in moved
+ parameter.requires_grad
test_torch.py::shm-2::torch_optimizers.a_layer_that_is_frozen_and_thawed_is_the_same_on_all

LS4: a step that a scaler leaves out on one rank does not count there
hvdlite/torch/strategies/averaging.py
-         if self._is_counted:
-             self.before_step()
-             self._go_on(samples=0.0)
test_torch.py::shm-2::torch_optimizers.an_overflow_on_one_rank_leaves_all_in_step
hangs

LS5: sync() does not wait for ranks that still train
hvdlite/torch/strategies/averaging.py
- while others_train:
+ while False:
test_torch.py::shm-2::torch_optimizers.ranks_of_different_speed_meet_by_time_and_in_sync
hangs

OB1: the overflow of one rank is its own with OneBitAdam and Adasum
hvdlite/torch/scaling.py
- if gradients and overflow and finite:
+ if gradients and overflow and not finite:
test_torch.py::shm-2::torch_optimizers.an_overflow_on_one_rank_leaves_all_in_step
hangs

LS2: ranks that get the state of a local step from another one still send gradients
hvdlite/torch/distributed_optimizer.py
- getattr(optimizer, "_hvd_adopt", bool)()
+ pass
test_torch.py::shm-2::torch_strategies.gradients_stay_where_they_are_after_a_checkpoint_of_a_local_step
""")
