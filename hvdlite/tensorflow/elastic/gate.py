"""TensorFlow's update gate: in a graph nothing but control dependencies orders updates behind
reductions.

A program that XLA compiles has no such order, and writes variables in place: it has no gate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from hvdlite.elastic.gate import Gate
from hvdlite.tensorflow import xla


class GraphGate(Gate):
    """A variable notes that a graph has begun to update."""

    def __init__(self) -> None:
        super().__init__()
        self._is_used = False
        self._is_blind = False  # some program has no order, or the variable is not to be had
        self._mark: Any = None

    @contextlib.contextmanager
    def behind(self, gradients: Sequence[Any]) -> Iterator[None]:
        self._is_used = True
        if tf.executing_eagerly():
            with super().behind(gradients):
                yield
            return
        with tf.control_dependencies(_tensors(gradients)):
            begins = self._note()
        with tf.control_dependencies([begins]):
            yield

    def _note(self) -> Any:
        in_session = not tf.compat.v1.executing_eagerly_outside_functions()
        if in_session or xla.is_compiling():
            self._is_blind = True
            return tf.no_op()
        with tf.init_scope():  # it outlives the graph
            if self._mark is None:
                self._mark = tf.Variable(False, trainable=False, name="hvdlite_update_has_begun")
        return self._mark.assign(True, read_value=False)

    def has_begun(self) -> bool:
        return super().has_begun() or (self._mark is not None and bool(self._mark.numpy()))

    def close(self) -> None:
        super().close()
        if self._mark is not None:
            self._mark.assign(False)

    def guards(self) -> bool:
        return self._is_used and not self._is_blind


def _tensors(gradients: Sequence[Any]) -> list[Any]:
    given = [gradient for gradient in gradients if gradient is not None]
    sparse = [each for each in given if isinstance(each, tf.IndexedSlices)]
    dense = [each for each in given if not isinstance(each, tf.IndexedSlices)]
    return [*dense, *(part for each in sparse for part in (each.values, each.indices))]


GATE = GraphGate()
