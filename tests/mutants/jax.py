"""Faults of hvdlite/jax."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
J1: a compiled reducescatter takes any op
hvdlite/core/operations.py
-         check_scatter(call.operation, call.op)
+         pass
test_jax.py::shm-2::jax_arguments.wrong_arguments_are_refused

J2: calls of one program run in any order: ranks wait for each other
hvdlite/jax/traced.py
-     follow(token_after)
-     return made
+     return made
test_jax.py::shm-2::programs.independent_calls_come_in_one_order_on_all_ranks

J3: a call whose result one rank does not use is dropped there
hvdlite/jax/traced.py
- return results, _EFFECTS if effectful else frozenset()
+ return results, frozenset()
test_jax.py::shm-2::jax_compiled.the_last_call_happens_where_only_one_rank_uses_it

J4: gradients are divided by gradient_predivide_factor and never multiplied again
hvdlite/adapter/step.py
- postscale=factor,
+ postscale=1.0,
test_jax.py::shm-2::jax_training.with_options_and_without_jit

J5: ranks outside the process set cannot train
hvdlite/jax/gradients.py
-     if not options.takes_part():
-         return list(gradients)
test_jax.py::shm-2::jax_training.ranks_outside_the_process_set_train_alone

J6: the gradient of a compiled allgather is that of the first rank's rows
hvdlite/core/operations.py
- return [position * length for length in lengths]
+ return [0 for length in lengths]
test_jax.py::shm-2::gradients.of_allgather_is_the_average_of_ones_own_rows

J7: gradients of integers are sent
hvdlite/jax/framework.py
- if getattr(leaf, "dtype", None) != float0]
+ if True]
test_jax.py::shm-2::jax_gradients.integers_beside_floats_have_none

J8: a step that donates leaves no state to go back to
hvdlite/jax/elastic/state.py
- self._donates = self._donates or is_donated(self._seen)
+ self._donates = False
test_elastic_states_jax.py::test_a_failed_step_is_undone
""")
