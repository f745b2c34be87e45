"""Faults of hvdlite/jax."""

from __future__ import annotations

from mutants.mutant import Mutant

_JAX = "tests/conformance/test_jax.py::shm-2::"
_J = _JAX + "jax_"

MUTANTS = (
    Mutant(
        "J1",
        "hvdlite/core/operations.py",
        "        check_scatter(call.operation, call.op)\n",
        "        pass\n",
        "a compiled reducescatter takes any op",
        (_J + "arguments.wrong_arguments_are_refused",),
    ),
    Mutant(
        "J2",
        "hvdlite/jax/traced.py",
        "    follow(token_after)\n    return made\n",
        "    return made\n",
        "calls of one program run in any order: ranks wait for each other",
        (_JAX + "programs.independent_calls_come_in_one_order_on_all_ranks",),
    ),
    Mutant(
        "J3",
        "hvdlite/jax/primitive.py",
        "return results, _EFFECTS if effectful else frozenset()",
        "return results, frozenset()",
        "a call whose result one rank does not use is dropped there",
        (_J + "compiled.the_last_call_happens_where_only_one_rank_uses_it",),
    ),
    Mutant(
        "J4",
        "hvdlite/adapter/step.py",
        "postscale=factor,",
        "postscale=1.0,",
        "gradients are divided by gradient_predivide_factor and never multiplied again",
        (_J + "training.with_options_and_without_jit",),
    ),
    Mutant(
        "J5",
        "hvdlite/jax/gradients.py",
        "    if not process_set.included():\n        return list(gradients)\n",
        "",
        "ranks outside the process set cannot train",
        (_J + "training.ranks_outside_the_process_set_train_alone",),
    ),
    Mutant(
        "J6",
        "hvdlite/core/operations.py",
        "return [position * length for length in lengths]",
        "return [0 for length in lengths]",
        "the gradient of a compiled allgather is that of the first rank's rows",
        (_JAX + "gradients.of_allgather_is_the_average_of_ones_own_rows",),
    ),
    Mutant(
        "J7",
        "hvdlite/jax/leaves.py",
        'if getattr(leaf, "dtype", None) != float0]',
        "if True]",
        "gradients of integers are sent",
        (_J + "gradients.integers_beside_floats_have_none",),
    ),
    Mutant(
        "J8",
        "hvdlite/jax/elastic/trees.py",
        "self._donates = self._donates or is_donated(self._seen)",
        "self._donates = False",
        "a step that donates leaves no state to go back to",
        ("tests/unit/test_elastic_states_jax.py::test_a_failed_step_is_undone",),
    ),
)
