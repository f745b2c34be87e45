"""What libraries for TensorFlow borrow of Horovod, as EasyRec, ElasticDL and GRACE do."""

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow import _LegacyOptimizer, _make_allreduce_grads_fn
from horovod.tensorflow.compression import FP16Compressor, NoneCompressor
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.mpi_ops import _grouped_allreduce

hvd.init()
rank, size = hvd.rank(), hvd.size()
average = (size - 1) / 2
assert issubclass(tf.compat.v1.train.GradientDescentOptimizer, _LegacyOptimizer)
assert hvd._make_allreduce_grads_fn is _make_allreduce_grads_fn

gradients = [tf.fill([2], float(rank)), None, tf.fill([3], 2.0 * rank)]
for compression in (NoneCompressor, FP16Compressor, hvd.Compression.none):
    # By position, as they are given in Horovod's own code.
    reduce = _make_allreduce_grads_fn(
        "gradients", "", "", compression, False, hvd.Average, 1.0, None
    )
    for function in (
        reduce,
        tf.function(lambda reduce=reduce: [g for g in reduce(gradients) if g is not None]),
    ):
        got = [
            g.numpy().tolist()
            for g in (function(gradients) if function is reduce else function())
            if g is not None
        ]
        assert got == [[average] * 2, [2 * average] * 3], got

variables = [tf.Variable(g) for g in gradients if g is not None]
grouped = _make_allreduce_grads_fn("grouped", op=hvd.Sum, groups=[variables])
got = grouped([g for g in gradients if g is not None], variables)
assert [g.numpy().tolist() for g in got] == [[average * size] * 2, [2 * average * size] * 3]

got = _grouped_allreduce([tf.ones([2]), tf.ones([1])], name="some", op=hvd.Sum)
assert [t.numpy().tolist() for t in got] == [[size] * 2, [size]]

helper = LocalGradientAggregationHelperEager(
    2, lambda grads, variables: reduce(grads), False, False
)
variable = tf.Variable([0.0, 0.0])


class Optimizer:
    iterations = tf.Variable(0, dtype=tf.int64)


for turn in range(2):
    (total,) = helper.compute_gradients([tf.fill([2], float(rank))], [variable])
    helper.apply_gradients(lambda total=total: variable.assign_sub(total), Optimizer)
    assert variable.numpy().tolist() == ([0.0, 0.0] if turn == 0 else [-2 * average] * 2), (
        turn,
        variable,
    )
assert Optimizer.iterations.numpy() == 1

# An unknown process set is told when the operation is made, in a graph as well.
unknown = hvd.ProcessSet([0])
unknown.process_set_id = 10
for make in (
    lambda: hvd.allreduce(tf.ones([2]), process_set=unknown),
    lambda: hvd.allgather(tf.ones([2]), process_set=unknown),
    lambda: hvd.broadcast(tf.ones([2]), 0, process_set=unknown),
    lambda: hvd.alltoall(tf.ones([size]), process_set=unknown),
    lambda: hvd.reducescatter(tf.ones([size]), process_set=unknown),
    lambda: hvd.grouped_allreduce([tf.ones([2])], process_set=unknown),
):
    made = []
    with tf.Graph().as_default():
        try:
            made.append(make())
        except ValueError as error:
            assert "does not exist" in str(error), error
    assert not made
    try:
        made.append(tf.function(make)())
    except ValueError as error:
        assert "does not exist" in str(error), error
    assert not made
print(f"rank {rank} of {size} is done")
