"""Gradients take the way that the reducer is built around."""

from __future__ import annotations

from unittest import mock

import hvdlite
import hvdlite.torch as hvd
from checks import ALWAYS, check
from checks.here import Here
from checks.torch_training import distributed, run_steps
from hvdlite.adapter.hooks.reducer import GradientReducer


@check(tags=[ALWAYS])
def dense_gradients_leave_by_their_native_hooks(here: Here) -> None:
    net, optimizer = distributed()
    operations = []
    arrived = mock.patch.object(
        GradientReducer, "arrived", autospec=True, side_effect=GradientReducer.arrived
    )
    started = mock.patch.object(
        GradientReducer, "_start", autospec=True, side_effect=GradientReducer._start
    )
    with arrived as in_python, started as the_long_way:
        for _ in range(3):
            run_steps(here, net, optimizer, 1)
            operations.append(hvdlite.metrics()["operations"])
    assert (in_python.call_count, the_long_way.call_count) == (0, 0)
    # Four gradients, and which ranks have them.
    assert operations[2] - operations[1] == (5 if here.size > 1 else 0), operations


@check(tags=[ALWAYS])
def biases_beside_a_compression_leave_by_their_native_hooks(here: Here) -> None:
    net, optimizer = distributed(compression=hvd.Compression.int8())
    started = mock.patch.object(
        GradientReducer, "_start", autospec=True, side_effect=GradientReducer._start
    )
    with started as the_long_way:
        run_steps(here, net, optimizer, 3)
    matrices = sum(p.dim() > 1 for p in net.parameters())
    assert 0 < matrices < len(list(net.parameters()))
    assert the_long_way.call_count == (3 * matrices if here.size > 1 else 0)
