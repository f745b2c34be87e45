"""The reduction of a step's gradients, for tapes and optimizers: eagerly, and inside a tf.function.
Not differentiable."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter.at_once.primitives import Backend, Group
from hvdlite.adapter.compression.methods import Encoded
from hvdlite.adapter.step import Options
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Sum as SUM
from hvdlite.core import engine
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet
from hvdlite.tensorflow import sparse, xla
from hvdlite.tensorflow.compression.algebra import in_graph
from hvdlite.tensorflow.errors import in_tensorflows_words
from hvdlite.tensorflow.graph import GRAPH, unique_name
from hvdlite.tensorflow.ops import EAGER, allgather, do_not_convert
from hvdlite.tensorflow.place import members

# The name of the tensor by which ranks compare what they lack; docs/reference/errors.md has it.
_LACKING = "variables without a gradient (numbers behind the 0)"
_SHOWN = 6
_BEGIN = time.time()  # float32 has not enough digits for the clock of a machine


class TensorFlowBackend(Backend):
    """Gradients are named by their numbers, behind the scope: all ranks must use the same, and no
    two reductions at once may share them. Inside a tf.function each call's scope is made unique."""

    @do_not_convert
    def allreduce(self, groups: Sequence[Group], options: Options) -> Group:
        scope = f"{options.scope}gradients"
        scope = scope if options.fixed_names else scope_of(scope)
        results: Group = {}
        alone: Group = {}
        for number, group in enumerate(groups):
            slices = {i: gradient for i, gradient in group.items() if self.is_sparse(gradient)}
            dense = {i: gradient for i, gradient in group.items() if i not in slices}
            results |= {
                i: self._gathered(each, f"{scope}/{i}", options) for i, each in slices.items()
            }
            if options.groups is None or len(dense) < 2:
                alone |= dense
            else:
                results |= _send(dense, scope, f"{scope}/group.{number}", options)
        return results | _send(alone, scope, None, options)

    @do_not_convert
    def compare(self, lacking: Sequence[int], options: Options) -> None:
        """A rank whose gradient is None sends nothing, and the others would wait. The core compares
        shapes, so that of a tensor without elements says which are None."""
        # XLA sends all in one call, and the core compares how many. Weights always exist.
        if xla.is_compiling() or options.fixed_names:
            return
        call = Call(ALLREDUCE, f"{options.scope}{_LACKING}", options.process_set, SUM)
        with in_tensorflows_words():
            (EAGER if tf.executing_eagerly() else GRAPH).run(call, [tf.zeros(_shape(lacking))])

    @do_not_convert
    def allgather(self, group: Group, options: Options) -> Group:
        scope = scope_of(f"{options.scope}rows")
        return {
            i: allgather(
                array[None], f"{scope}/{i}", ignore_name_scope=True,
                process_set=options.process_set,
            )
            for i, array in group.items()
        }  # fmt: skip

    @do_not_convert
    def encoded(self, group: dict[int, Encoded], options: Options) -> dict[int, Any]:
        if tf.executing_eagerly():
            return super().encoded(group, options)
        call = Call(ALLREDUCE, scope_of(f"{options.scope}encoded"), options.process_set, SUM)
        return in_graph(call, group)

    def _gathered(self, slices: Any, name: str, options: Options) -> Any:
        def gather(rows: Any, name: str | None) -> Any:
            return allgather(rows, name, ignore_name_scope=True, process_set=options.process_set)

        sparse.check(options.op, options.prescale, options.postscale)
        return sparse.allreduce(slices, gather, name, options.op, options.process_set)

    def is_sparse(self, gradient: Any) -> bool:
        return isinstance(gradient, tf.IndexedSlices)

    def to_dense(self, gradient: Any) -> Any:
        return tf.convert_to_tensor(gradient)

    def shared_out(self, gradient: Any, process_set: ProcessSet) -> Any:
        count = members(process_set, gradient.dtype)
        if self.is_sparse(gradient):
            return tf.IndexedSlices(gradient.values / count, gradient.indices, gradient.dense_shape)
        return gradient / count

    def either(
        self, condition: Any, change: Callable[[list[Any]], list[Any]], given: list[Any]
    ) -> list[Any]:
        return list(tf.cond(condition, lambda: change(given), lambda: given))

    def seconds(self) -> Any:
        return tf.cast(tf.timestamp() - _BEGIN, tf.float32)


BACKEND = TensorFlowBackend()


def _shape(lacking: Sequence[int]) -> tuple[int, ...]:
    """0 and the numbers. Of very many, the last one stands for the rest."""
    shown, rest = tuple(lacking[:_SHOWN]), lacking[_SHOWN:]
    return (0, *shown, zlib.crc32(repr(rest).encode()) >> 1) if rest else (0, *shown)


def scope_of(name: str) -> str:
    # In a graph several reductions may be under way at once. The graph counts, so that ranks agree
    # however often each of them has traced.
    return name if tf.executing_eagerly() else unique_name(name)


def _send(gradients: Group, scope: str, group: str | None, options: Options) -> Group:
    """`group`: the name under which they travel together; None: each under its own."""
    tensors, names = list(gradients.values()), [f"{scope}/{i}" for i in gradients]
    factors = (options.prescale, options.postscale)
    call = Call(
        ALLREDUCE, group, options.process_set, options.op, *factors, grouped=group is not None
    )
    with in_tensorflows_words():
        if not tensors:
            return {}
        if tf.executing_eagerly():
            sums = _send_eagerly(call._replace(patient=True), tensors, names)
        elif call.grouped:
            sums = GRAPH.run(call, tensors)
        else:
            sums = GRAPH.gradients(call, tensors, names)
    return dict(zip(gradients, sums, strict=True))


def _send_eagerly(call: Call, tensors: Sequence[Any], names: Sequence[str]) -> Sequence[Any]:
    if call.grouped:
        results: Sequence[Any] = engine.run_now(EAGER.start(call, tensors))
        return results
    pending = [EAGER.start(call._replace(name=n), [t]) for n, t in zip(names, tensors, strict=True)]
    engine.wait_all([native for each in pending for native in each.natives])
    return [each.finish([None]) for each in pending]
