"""Faults of hvdlite/keras."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
K1: momentum correction is upside down
hvdlite/keras/callbacks.py
- velocity.assign(velocity * (rate / before))
+ velocity.assign(velocity * (before / rate))
test_keras.py::torch-2::keras_callbacks.the_learning_rate_follows_a_schedule_and_momentum_follows_it

K2: the warm-up ends a batch late
hvdlite/keras/callbacks.py
-             epoch += 1.0 / (self.steps_per_epoch or 1)
test_keras.py::torch-2::keras_callbacks.the_learning_rate_warms_up

K3: ranks with other metrics are not told
hvdlite/adapter/agreement/divergence.py
- if theirs.keys() != mine.keys():
+ if False:
test_keras.py::torch-2::keras_callbacks.metrics_that_only_some_ranks_have_are_named

K4: each rank decides by itself whether to take a step
hvdlite/keras/distributed.py
-         refuse_inside_loss_scaling("DistributedOptimizer", _OTHERWISE)
+         pass
test_keras.py::torch-2::keras_training.a_distributed_optimizer_inside_loss_scaling_is_refused

K5: passes that wait are not counted
hvdlite/keras/distributed.py
-         getattr(self._optimizer, "inner_optimizer", self._optimizer)._iterations.assign_add(1)
test_keras.py::torch-2::keras_training.with_gradients_that_add_up_over_several_passes
test_keras.py::torch-2::keras_training.a_step_between_passes_changes_no_weight

K6: a variable that no rank has a gradient of gets one of zeros
hvdlite/adapter/at_once/reduction.py
-             results[i] = results[i] if seen else None
+             pass
test_keras.py::torch-2::keras_training.variables_without_a_gradient

K7: ranks start with optimizers of their own
hvdlite/keras/callbacks.py
- everything = model_variables(model) + variables_of(model.optimizer)
+ everything = model_variables(model)
test_keras.py::torch-2::keras_callbacks.the_optimizer_becomes_the_roots_as_well

K8: all ranks write the same file
hvdlite/keras/callbacks.py
-         if rank() == 0:
-             super()._save_model
+         if True:
+             super()._save_model
test_keras.py::torch-2::keras_callbacks.the_best_model_is_kept_by_one_rank

K9: sync() of averages by time does not wait for slower ranks
hvdlite/adapter/local/averaging.py
- here = float(self._averaged(is_sync=True))
+ here = 1e9 + float(self._averaged(is_sync=True))
test_keras.py::torch-2::keras_matrix.ranks_of_uneven_speed_with_averages_by_time

K11: a gradient that a rank lacks counts as a momentum of zeros
hvdlite/keras/strategies/onebit.py
- means = reduced(self._hvd_signs, backend, own, variables, absent=of_zeros)
+ means = reduced(self._hvd_signs, backend, own, variables)
test_keras.py::torch-2::keras_matrix.a_gradient_that_one_rank_lacks

K12: the guard does not see the losses of its rank
hvdlite/keras/callbacks.py
-                 self._guard.see(lambda: math.isfinite(loss))
+                 pass
test_keras.py::torch-2::keras_drift.numbers_that_are_finite_on_no_rank_are_told_with_the_first

K13: the rank whose numbers were finite for longest is named as the first
hvdlite/adapter/agreement/finite.py
- alone = max(told.alone for told in everyones.values())
+ alone = min(told.alone for told in everyones.values())
test_finite.py::test_the_first_rank_is_named

K14: a rank tells once for ever that its numbers are not finite
hvdlite/adapter/agreement/finite.py
- self._kept, self._has_told = 0, False
+ self._kept = 0
test_finite.py::test_a_rank_asks_once_and_again_after_its_parameters_were_finite
""")
