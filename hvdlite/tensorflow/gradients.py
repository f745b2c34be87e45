"""The reduction of a step's gradients, for tapes and optimizers: eagerly, and inside a tf.function. Not differentiable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter.step import Options
from hvdlite.base.operations import ALLREDUCE
from hvdlite.core import engine
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import set_id_of
from hvdlite.tensorflow import sparse
from hvdlite.tensorflow.errors import in_tensorflows_words
from hvdlite.tensorflow.graph import GRAPH, unique_name
from hvdlite.tensorflow.ops import EAGER, allgather, do_not_convert


@do_not_convert
def allreduce_gradients(
    grads: Sequence[Any],
    options: Options,
    *,
    names: Sequence[str] | None = None,
    scope: str = "gradients",
    groups: Sequence[Sequence[int]] = (),
) -> list[Any]:
    """The reduced gradients, in the order of `grads`; None stays None, and so does everything where there are no others to
    reduce with: in a job of one rank, and on ranks that are not in the process set.

    `names` (default: their numbers), behind `scope`, are the gradients' names: all ranks must use the same, and no two
    reductions at once may share them; inside a tf.function each call's scope is made unique. `groups` are positions of
    gradients that travel together.
    """
    result = list(grads)
    if not needs_reduction(options):
        return result
    settled, op, process_set = options.compression, options.op, options.process_set
    scope = _unique(scope)
    labels = [f"{scope}/{label}" for label in (names or range(len(result)))]
    if options.sparse_as_dense:
        result = [tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in result]
    dense = [i for i, g in enumerate(result) if g is not None and not isinstance(g, tf.IndexedSlices)]
    for i, slices in enumerate(result):
        if isinstance(slices, tf.IndexedSlices):
            sparse.check(op, options.prescale, options.postscale)
            gather = lambda rows, name: allgather(rows, name, ignore_name_scope=True, process_set=process_set)  # noqa: E731
            result[i] = sparse.allreduce(slices, gather, labels[i], op, process_set)
    packed = {i: settled.compress(tf.convert_to_tensor(result[i]), labels[i]) for i in dense}
    together = [[i for i in group if i in packed] for group in groups]
    grouped = {i for group in together if len(group) > 1 for i in group}
    batches = [group for group in together if len(group) > 1] + [[i for i in dense if i not in grouped]]
    with in_tensorflows_words():
        for number, batch in enumerate(batches):
            if not batch:
                continue
            group = f"{scope}/group.{number}" if number < len(batches) - 1 else None
            sent = [packed[i][0] for i in batch]
            received = _send(sent, [labels[i] for i in batch], group, options)
            for i, tensor in zip(batch, received, strict=True):
                result[i] = settled.decompress(tensor, packed[i][1])
    return result


def needs_reduction(options: Options) -> bool:
    """Whether there are others to reduce with. In elastic jobs a graph may live to see them come."""
    set_id_of(options.process_set)  # or an error that says what is missing
    return options.reduces()


def _unique(scope: str) -> str:
    # In a graph several reductions may be under way at once. The graph counts, so that ranks agree however often each
    # of them has traced.
    return scope if tf.executing_eagerly() else unique_name(scope)


def _send(tensors: list[Any], names: list[str], group: str | None, options: Options) -> list[Any]:
    """`group`: the name under which they travel together; None: each under its own."""
    factors = (options.prescale, options.postscale)
    call = Call(ALLREDUCE, group, options.process_set, options.op, *factors, grouped=group is not None)
    if not tf.executing_eagerly():
        return list(GRAPH.run(call, tensors)) if call.grouped else GRAPH.gradients(call, tensors, names)
    if call.grouped:
        return list(engine.run_now(EAGER.start(call, tensors)))
    pending = [EAGER.start(call._replace(name=name), [tensor]) for name, tensor in zip(names, tensors, strict=True)]
    engine.wait_all([native for each in pending for native in each.natives])
    return [each.finish([None]) for each in pending]
