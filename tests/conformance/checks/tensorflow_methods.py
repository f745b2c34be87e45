"""Compression with memory in tapes: eagerly, in a tf.function, and compiled by XLA."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import hvdlite.tensorflow as hvd
from checks import check
from checks.choosing import on_a_slow_network
from checks.here import Here, raises

METHODS = {
    "topk": lambda: hvd.Compression.topk(0.1),
    "dgc": lambda: hvd.Compression.dgc(0.1, momentum=0.0),
    "powersgd": lambda: hvd.Compression.powersgd(1),
    "int8": lambda: hvd.Compression.int8(),
    "ternary": lambda: hvd.Compression.ternary(2.5, error_feedback=True),
}
STEPS = 4


def _given(rank: int, step: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([rank, step])
    draw = [rng.standard_normal(shape).astype(np.float32) for shape in ((12, 9), (9,))]
    return draw[0], draw[1]


def _step(compression: Any, mode: str) -> Any:
    """A step of two weights whose gradients are what it is given."""
    weights = [tf.Variable(tf.zeros((12, 9)), name="w"), tf.Variable(tf.zeros(9), name="b")]

    def step(a: Any, b: Any) -> Any:
        with hvd.DistributedGradientTape(tf.GradientTape(), compression=compression) as tape:
            loss = tf.reduce_sum(weights[0] * a) + tf.reduce_sum(weights[1] * b)
        return tape.gradient(loss, weights)

    return tf.function(step) if mode == "graph" else step


@check(method=tuple(METHODS), seconds=30)
def sent_and_kept_is_the_average_of_all_gradients(here: Here, method: str) -> None:
    for mode in ("eager", "graph"):
        compression = METHODS[method]()
        run = _step(compression, mode)
        sent = [np.zeros((12, 9)), np.zeros(9)]
        for number in range(STEPS):
            reduced = run(*map(tf.constant, _given(here.rank, number)))
            sent = [total + each.numpy() for total, each in zip(sent, reduced, strict=True)]
        given = [
            sum(np.mean([_given(r, n)[i] for r in here.ranks], axis=0) for n in range(STEPS))
            for i in range(2)
        ]
        memory = compression.state_dict()["memory"]
        # One rank sends nothing.
        compressed = ["w"] if here.size > 1 else []
        assert [name.partition("#")[0] for name in memory] == compressed, memory.keys()
        own = memory["w#0"]["residual"].reshape(12, 9) if compressed else np.zeros((12, 9))
        kept = hvd.allreduce(tf.constant(own), op=hvd.Average, name="kept")
        np.testing.assert_allclose(sent[0] + kept.numpy(), given[0], atol=1e-4)
        np.testing.assert_allclose(sent[1], given[1], atol=1e-4)
        here.saw(sent[0])
        here.settle()


@check()
def a_call_by_itself_needs_a_name(here: Here) -> None:
    compression = hvd.Compression.topk(0.1)
    with raises(ValueError, "remembers each tensor by its name"):
        hvd.allreduce(tf.ones((3, 3)), compression=compression)
    total = hvd.allreduce(tf.ones((10, 10)), op=hvd.Sum, name="a", compression=compression)
    assert int(tf.math.count_nonzero(total)) >= 10


@check(min_ranks=2, seconds=30)
def auto_compresses_where_measurements_say_so(here: Here) -> None:
    for mode in ("eager", "graph"):
        compression = on_a_slow_network(hvd.Compression.auto())
        run = _step(compression, mode)
        before = hvd.metrics()["bytes_encoded"]
        for number in range(10):
            reduced = run(*map(tf.constant, _given(here.rank, number)))
        assert hvd.metrics()["bytes_encoded"] > before
        assert "int8(error_feedback=True)" in compression.said
        here.saw(reduced[0].numpy())
        here.settle()
