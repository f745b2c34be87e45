"""Faults of hvdlite/tensorflow."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
F2: local slices are not divided by the number of ranks
hvdlite/tensorflow/gradients.py
- tf.IndexedSlices(gradient.values / count,
+ tf.IndexedSlices(gradient.values,
test_tensorflow.py::shm-3::tensorflow_training.local_sources_stay_local_and_are_scaled

F4: local variables are reduced
hvdlite/adapter/at_once/reduction.py
- everyones = [i for i, variable in enumerate(variables) if id(variable) not in local]
+ everyones = list(range(len(variables)))
test_tensorflow.py::shm-3::tensorflow_training.local_sources_stay_local_and_are_scaled

F5: averages of slices are sums
hvdlite/tensorflow/sparse.py
-     if op == Average:
-         values = values / members(process_set, values.dtype)
test_tensorflow.py::shm-3::tensorflow_tensors.slices_are_gathered
test_tensorflow.py::shm-3::tensorflow_training.a_tape_trains_like_one_process_on_all_the_data

F6: average_aggregated_gradients has no effect
hvdlite/adapter/at_once/reduction.py
- return total / self.passes if self.average and total is not None else total
+ return total
test_tensorflow.py::shm-3::tensorflow_training.aggregation_reduces_every_second_pass

F7: gradients of earlier steps are added to those of this
hvdlite/tensorflow/aggregation.py
- cleared = [sums[i].assign(tf.zeros_like(sums[i])) for i in present]
+ cleared = []
test_tensorflow.py::shm-3::tensorflow_training.aggregation_reduces_every_second_pass
test_tensorflow.py::shm-3::tensorflow_training.sessions_of_tensorflow_1_train

F8: variables keep their own values
hvdlite/tensorflow/functions.py
-         variable.assign(value)
+         pass
test_tensorflow.py::shm-3::tensorflow_training.variables_get_the_roots_values

F9: the variance of all batches leaves out how far their means are apart
hvdlite/tensorflow/sync_batch_norm.py
- spread = (flat[1] + tf.square(flat[0] - everyones)) * count
+ spread = flat[1] * count
test_tensorflow.py::shm-3::tensorflow_batch_norm.batch_normalization_is_that_of_the_whole_batch

F10: a step whose reduction fails decays the weights
hvdlite/tensorflow/elastic/gate.py
- with tf.control_dependencies(_tensors(gradients)):
+ with tf.control_dependencies([]):
test_elastic_states_tensorflow.py::test_updates_wait_for_all_gradients
""")
