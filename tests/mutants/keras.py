"""Faults of hvdlite/keras."""

from __future__ import annotations

from mutants.mutant import Mutant

_RATE = "hvdlite/keras/callbacks/learning_rate.py"
_K = "tests/conformance/test_keras.py::torch-2::keras_"

MUTANTS = (
    Mutant(
        "K1",
        _RATE,
        "velocity.assign(velocity * (rate / before))",
        "velocity.assign(velocity * (before / rate))",
        "momentum correction is upside down",
        (_K + "callbacks.the_learning_rate_follows_a_schedule_and_momentum_follows_it",),
    ),
    Mutant(
        "K2",
        _RATE,
        "            epoch += 1.0 / (self.steps_per_epoch or 1)\n",
        "",
        "the warm-up ends a batch late",
        (_K + "callbacks.the_learning_rate_warms_up",),
    ),
    Mutant(
        "K3",
        "hvdlite/adapter/divergence.py",
        "if theirs.keys() != mine.keys():",
        "if False:",
        "ranks with other metrics are not told",
        (_K + "callbacks.metrics_that_only_some_ranks_have_are_named",),
    ),
    Mutant(
        "K4",
        "hvdlite/keras/distributed.py",
        "            raise ValueError(_INSIDE_LOSS_SCALING)\n",
        "            pass\n",
        "each rank decides by itself whether to take a step",
        (_K + "training.a_distributed_optimizer_inside_loss_scaling_is_refused",),
    ),
    Mutant(
        "K5",
        "hvdlite/keras/accumulation.py",
        '        getattr(self._optimizer, "inner_optimizer", '
        "self._optimizer)._iterations.assign_add(1)\n",
        "",
        "passes that wait are not counted",
        (
            _K + "training.with_gradients_that_add_up_over_several_passes",
            _K + "training.a_step_between_passes_changes_no_weight",
        ),
    ),
    Mutant(
        "K6",
        "hvdlite/adapter/reduction.py",
        "            results[i] = results[i] if seen else None\n",
        "            pass\n",
        "a variable that no rank has a gradient of gets one of zeros",
        (_K + "training.variables_without_a_gradient",),
    ),
    Mutant(
        "K7",
        "hvdlite/keras/callbacks/broadcasting.py",
        "everything = model_variables(model) + variables_of(model.optimizer)",
        "everything = model_variables(model)",
        "ranks start with optimizers of their own",
        (_K + "callbacks.the_optimizer_becomes_the_roots_as_well",),
    ),
    Mutant(
        "K8",
        "hvdlite/keras/callbacks/checkpoint.py",
        "        if rank() == 0:\n            super()._save_model",
        "        if True:\n            super()._save_model",
        "all ranks write the same file",
        (_K + "callbacks.the_best_model_is_kept_by_one_rank",),
    ),
)
