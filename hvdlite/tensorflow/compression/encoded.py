"""Rounds by a codec of the core inside a tf.function: as a call of the program that XLA compiles,
or else by way of Python, in one node for all tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvdlite.adapter import xla as calls
from hvdlite.adapter.compression.methods import Encoded
from hvdlite.adapter.compression.on_numpy import ALGEBRA as NUMPY
from hvdlite.adapter.compression.rounds import ask_core
from hvdlite.core.engine import codecs, run_all
from hvdlite.core.operations import Call
from hvdlite.tensorflow import xla


def in_graph(call: Call, asked: dict[int, Encoded]) -> dict[int, Any]:
    """The answers: sum and residual of each. All are by the same codec."""
    rounds = list(asked.values())
    arrays = [each.array for each in rounds]
    residuals = [each.residual for each in rounds if each.residual is not None]
    emit = _by_xla if xla.is_compiling() else _by_numpy
    made = emit(call, rounds[0], arrays, residuals)
    for result, given in zip(made, [*arrays, *residuals], strict=True):
        result.set_shape(given.shape)
    kept = made[len(arrays) :] or [None] * len(arrays)
    return dict(zip(asked, zip(made[: len(arrays)], kept, strict=True), strict=True))


def _by_xla(call: Call, first: Encoded, arrays: list[Any], residuals: list[Any]) -> list[Any]:
    number, _ = codecs()[first.codec]
    operands = [*arrays, *residuals, tf.cast(first.step, tf.float32)]
    shapes = [xla.static_shape(each, str(call.name)) for each in operands]
    codec = calls.codec_attributes(number, first.parameter, first.seed, len(residuals))
    return xla.emit(call, operands, shapes, codec)[:-1]


def _by_numpy(call: Call, first: Encoded, arrays: list[Any], residuals: list[Any]) -> list[Any]:
    def body(step: Any, *given: Any) -> list[Any]:
        own = [each.copy() for each in given[len(arrays) :]] or [None] * len(arrays)
        pending = [
            ask_core(
                NUMPY,
                call._replace(name=f"{call.name}.{i}"),
                first._replace(array=array, residual=residual, step=step),
            )
            for i, (array, residual) in enumerate(zip(given, own, strict=False))
        ]
        answers = run_all(pending)
        totals, kept = [total.array for total, _ in answers], [each for _, each in answers]
        return totals + (kept if residuals else [])

    given = [first.step, *arrays, *residuals]
    dtypes = [tf.float32] * (len(arrays) + len(residuals))
    made = tf.numpy_function(body, given, dtypes, stateful=True)
    return list(made) if isinstance(made, (list, tuple)) else [made]
