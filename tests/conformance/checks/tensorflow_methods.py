"""Compression with memory in TensorFlow, beside what compressors.py asks of every framework."""

from __future__ import annotations

import tensorflow as tf

import hvdlite.tensorflow as hvd
from checks import check
from checks.choosing import on_a_slow_network
from checks.here import Here, raises
from checks.runs import gradients, same_everywhere
from checks.tensorflow_run import TensorFlowRun


@check()
def a_call_by_itself_needs_a_name(here: Here) -> None:
    compression = hvd.Compression.topk(0.1)
    with raises(ValueError, "remembers each tensor by its name"):
        hvd.allreduce(tf.ones((3, 3)), compression=compression)
    total = hvd.allreduce(tf.ones((10, 10)), op=hvd.Sum, name="a", compression=compression)
    assert int(tf.math.count_nonzero(total)) >= 10


@check(min_ranks=2, seconds=30)
def auto_compresses_where_measurements_say_so(here: Here) -> None:
    for mode in TensorFlowRun.modes:
        compression = on_a_slow_network(hvd.Compression.auto())
        run = TensorFlowRun(TensorFlowRun.sgd(1.0), mode=mode, compression=compression)
        before = hvd.metrics()["bytes_encoded"]
        run.train(gradients(here.rank, 10))
        assert hvd.metrics()["bytes_encoded"] > before
        assert "int8(error_feedback=True)" in compression.said
        same_everywhere(here, run.weights())
