"""hvdlite.tensorflow: the gradient of each collective is the rule of hvdlite/core/gradients.py, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import hvdlite.tensorflow as hvd
from checks import check
from checks.here import AVERAGE, SUM, Here, reference
from checks.tensorflow_here import DYNAMIC_MODES, MODES, array, process_sets, run, tensor

# Of Sum, Average, Min, Max, Product: the gradient is the same reduction of the gradients.
_LINEAR = (SUM, AVERAGE)


def _gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """(x, dy) -> the gradient of x."""

    def gradient(x: Any, dy: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x, output_gradients=dy)

    return gradient


@check(mode=MODES)
def of_allreduce_is_the_same_allreduce(here: Here, mode: str) -> None:
    with process_sets(here) as sets:
        for among in sets:
            for op in _LINEAR:
                x = among.of(here.everyones("float64", (3, 2), op, "x"))
                dy = among.of(here.everyones("float64", (3, 2), op, "dy"))
                how = {"op": op, "prescale_factor": 0.5, "postscale_factor": 4.0, "process_set": among.process_set}
                want = reference(dy, op, 0.5, 4.0)
                for function in (
                    lambda t, how=how: hvd.allreduce(t, **how),
                    lambda t, how=how: hvd.grouped_allreduce([t, t], **how)[0],
                ):
                    got = run(mode, _gradient(function), tensor(x[among.mine]), tensor(dy[among.mine]))
                    here.close(array(got), want, exact=False)


@check(mode=DYNAMIC_MODES, tags=("essential",))
def of_the_others_are_their_ways_back(here: Here, mode: str) -> None:
    with process_sets(here) as sets:
        for among in sets:
            n, mine, s = len(among.members), among.mine, among.process_set
            rows = [1 + r % 2 for r in among.members]
            x = [here.data("float64", (rows[i], 2), r) for i, r in enumerate(among.members)]
            whole = among.of(here.everyones("float64", (sum(rows), 2)))
            start = sum(rows[:mine])
            # allgather: the average of one's own rows
            got = run(
                mode, _gradient(lambda t, s=s: hvd.allgather(t, process_set=s)), tensor(x[mine]), tensor(whole[mine])
            )
            here.close(array(got), reference(whole, AVERAGE)[start : start + rows[mine]], "allgather", exact=False)
            # broadcast: the average on the root, nothing elsewhere
            root = among.members[-1]
            same = among.of(here.everyones("float64", (4,)))
            function = lambda t, root=root, s=s: hvd.broadcast(t, root, process_set=s)  # noqa: E731
            got = run(mode, _gradient(function), tensor(same[mine]), tensor(same[mine]))
            want = reference(same, AVERAGE) if here.rank == root else np.zeros(4)
            here.close(array(got), want, "broadcast", exact=False)
            # alltoall: every row's gradient is its own value, and comes back to where it was; but the last two go nowhere
            splits = [[1 + (i + j) % 2 for j in range(n)] for i in range(n)]
            table = [here.data("float64", (sum(splits[i]) + 2, 2), r) for i, r in enumerate(among.members)]

            def there_and_back(t: Any, _: Any, mine_: Any = splits[mine], s: Any = s) -> Any:
                with tf.GradientTape() as tape:
                    tape.watch(t)
                    y, _ = hvd.alltoall(t, mine_, process_set=s)
                    half = tf.reduce_sum(y * y) / 2
                return tape.gradient(half, t)

            got = run(mode, there_and_back, tensor(table[mine]), tf.constant(0))
            want = table[mine]
            want[-2:] = 0
            here.close(array(got), want, "alltoall", exact=False)
            # reducescatter: the allgather, times the members if they were added
            share = [np.array_split(whole[0], n)[i].shape[0] for i in range(n)]
            parts = [here.data("float64", (share[i], 2), r, "part") for i, r in enumerate(among.members)]
            for op in _LINEAR:
                function = lambda t, op=op, s=s: hvd.reducescatter(t, op=op, process_set=s, prescale_factor=0.5)  # noqa: E731
                got = run(mode, _gradient(function), tensor(whole[mine]), tensor(parts[mine]))
                want = np.concatenate(parts) * 0.5 * (n if op == SUM else 1)
                here.close(array(got), want, "reducescatter", exact=False)
                # reduce: the broadcast of the root's, in the same way; other ranks keep their tensor, and add their own
                function = lambda t, op=op, root=root, s=s: hvd.reduce(t, root, hvd.Compression.none, op, None, s)  # noqa: E731
                got = run(mode, _gradient(function), tensor(same[mine]), tensor(same[mine]))
                want = same[-1] * (n if op == SUM else 1) + same[mine] * (here.rank != root)
                here.close(array(got), want, "reduce", exact=False)


@check(mode=MODES)
def of_a_gradient_exists(here: Here, mode: str) -> None:
    def twice(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(hvd.allreduce(x**3, op=SUM))
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    first, second = run(mode, twice, tf.fill([3], 2.0 + here.rank))
    value = 2.0 + here.rank
    assert np.allclose(array(first), 3 * value**2 * here.size)
    assert np.allclose(array(second), 6 * value * here.size)


@check(mode=MODES)
def passes_through_compression_and_variables(here: Here, mode: str) -> None:
    variable = tf.Variable([1.0, 2.0])

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            y = hvd.allreduce(variable, op=SUM, compression=hvd.Compression.fp16)
        return tape.gradient(y, variable)

    got = run(mode, gradient)
    assert got.dtype == tf.float32 and array(got).tolist() == [here.size] * 2
