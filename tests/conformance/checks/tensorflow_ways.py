"""Operations inside a tf.function go by what the configuration is named after."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import hvdlite.tensorflow as hvd
from checks import ALWAYS, check
from checks.here import SUM, Here
from checks.tensorflow_api import API
from hvdlite.tensorflow import by_kernel


def _nodes(function: Any, x: Any) -> set[str]:
    """The types of the nodes of its graph, and of those of the functions that it calls."""
    graph = function.get_concrete_function(x).graph.as_graph_def()
    return {
        node.op
        for each in (graph, *graph.library.function)
        for node in getattr(each, "node_def", None) or each.node
    }


@check(tags=[ALWAYS], seconds=30)
def a_collective_in_a_graph_is_a_kernel_or_a_call_of_xla_or_of_python(here: Here) -> None:
    def reduced(x: Any) -> Any:
        return hvd.allreduce(x, op=SUM, name="ways")

    with_kernels = here.environment.get("HVDLITE_TENSORFLOW_KERNELS", "1") == "1"
    assert (by_kernel.OPERATIONS is not None) == with_kernels, by_kernel.WHY_NOT
    x = tf.ones([3])
    in_graph, compiled = tf.function(reduced), tf.function(reduced, jit_compile=True)
    nodes = _nodes(in_graph, x)
    through_kernels = any(op.startswith("Hvdlite") for op in nodes)
    by_python = bool(nodes & {"PyFunc", "EagerPyFunc"})
    assert (through_kernels, by_python) == (with_kernels, not with_kernels), nodes
    if "compiled" in API.modes:
        nodes = _nodes(compiled, x)
        assert "XlaCallModule" in nodes and not any(
            op.startswith(("Hvdlite", "PyFunc", "EagerPyFunc")) for op in nodes
        ), nodes
        assert compiled(x).numpy().tolist() == [here.size] * 3
    assert in_graph(x).numpy().tolist() == [here.size] * 3
