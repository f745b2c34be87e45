"""Faults of hvdlite/tensorflow."""

from __future__ import annotations

from mutants.mutant import Mutant

_T = "tests/conformance/test_tensorflow.py::shm-3::tensorflow_"

MUTANTS = (
    Mutant(
        "F2",
        "hvdlite/tensorflow/gradients.py",
        "tf.IndexedSlices(gradient.values / count, ",
        "tf.IndexedSlices(gradient.values, ",
        "local slices are not divided by the number of ranks",
        (_T + "training.local_sources_stay_local_and_are_scaled",),
    ),
    Mutant(
        "F4",
        "hvdlite/adapter/reduction.py",
        "everyones = [i for i, variable in enumerate(variables) if id(variable) not in local]",
        "everyones = list(range(len(variables)))",
        "local variables are reduced",
        (_T + "training.local_sources_stay_local_and_are_scaled",),
    ),
    Mutant(
        "F5",
        "hvdlite/tensorflow/sparse.py",
        "    if op == Average:\n        values = values / members(process_set, values.dtype)\n",
        "",
        "averages of slices are sums",
        (
            _T + "tensors.slices_are_gathered",
            _T + "training.a_tape_trains_like_one_process_on_all_the_data",
        ),
    ),
    Mutant(
        "F6",
        "hvdlite/adapter/accumulation.py",
        "return total / self.passes if self.average and total is not None else total",
        "return total",
        "average_aggregated_gradients has no effect",
        (_T + "training.aggregation_reduces_every_second_pass",),
    ),
    Mutant(
        "F7",
        "hvdlite/tensorflow/aggregation.py",
        "cleared = [sums[i].assign(tf.zeros_like(sums[i])) for i in present]",
        "cleared = []",
        "gradients of earlier steps are added to those of this",
        (
            _T + "training.aggregation_reduces_every_second_pass",
            _T + "training.sessions_of_tensorflow_1_train",
        ),
    ),
    Mutant(
        "F8",
        "hvdlite/tensorflow/functions.py",
        "        variable.assign(value)\n",
        "        pass\n",
        "variables keep their own values",
        (_T + "training.variables_get_the_roots_values",),
    ),
    Mutant(
        "F9",
        "hvdlite/tensorflow/sync_batch_norm.py",
        "spread = (flat[1] + tf.square(flat[0] - everyones)) * count",
        "spread = flat[1] * count",
        "the variance of all batches leaves out how far their means are apart",
        (_T + "batch_norm.batch_normalization_is_that_of_the_whole_batch",),
    ),
    Mutant(
        "F10",
        "hvdlite/tensorflow/elastic/gate.py",
        "with tf.control_dependencies(_tensors(gradients)):",
        "with tf.control_dependencies([]):",
        "a step whose reduction fails decays the weights",
        ("tests/unit/test_elastic_states_tensorflow.py::test_updates_wait_for_all_gradients",),
    ),
)
