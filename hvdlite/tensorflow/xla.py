"""A collective as an operation of a program that TensorFlow has compiled by XLA:
tf.function(jit_compile=True).

TensorFlow takes a StableHLO module as a node of a graph (XlaCallModule). Ours holds one custom
call, whose handler is that of hvdlite.adapter.xla. The order token that it takes and returns lives
in a variable of TensorFlow's: a function's reads and writes of a variable stay in the program's
order, through conditions, loops and functions that it calls, and so do the calls.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter import xla
from hvdlite.base.operations import EXCHANGED
from hvdlite.core.operations import Call, compiled

try:  # TensorFlow has no public ways to either; JAX uses the first one as well
    from tensorflow.compiler.tf2xla.python.xla import call_module as _call_module
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext as _is_xlas
except ImportError:
    _is_xlas = None

# The version of XlaCallModule's contract
# (tensorflow/compiler/tf2xla/kernels/xla_call_module_loader.h) whose features are used.
_VERSION = 9

_ELEMENTS = {
    tf.bool: "i1", tf.uint8: "ui8", tf.int8: "i8", tf.uint16: "ui16", tf.int16: "i16",
    tf.uint32: "ui32", tf.int32: "i32", tf.uint64: "ui64", tf.int64: "i64", tf.float16: "f16",
    tf.bfloat16: "bf16", tf.float32: "f32", tf.float64: "f64",
}  # fmt: skip


def is_compiling() -> bool:
    """Whether what is traced now will be compiled by XLA, with all that it calls."""
    return (
        not tf.executing_eagerly()
        and _is_xlas is not None
        and bool(_is_xlas(tf.compat.v1.get_default_graph()))
    )


def node(call: Call, tensors: Sequence[Any], shapes: Sequence[Sequence[int]],
         codec: dict[str, Any] | None = None) -> list[Any]:  # fmt: skip
    """The call as a node of the program. `shapes` are those of the results; `codec`:
    xla.codec_attributes()."""
    check_served()
    name = str(call.name)
    how = xla.attributes(call, name) | (codec or {})
    token = _token()
    operands = [*tensors, token.read_value()]
    results = [*shapes, ()]
    given = [static_shape(t, name) for t in operands]
    elements = [_ELEMENTS[t.dtype] for t in operands]
    platforms = ["CPU", "CUDA"] if _sees_gpus() else ["CPU"]
    module = xla.module(given, results, elements, how, len(platforms))
    *made, after = _call_module(
        operands, version=_VERSION, module=module, platforms=platforms,
        Sout=[tf.TensorShape(shape) for shape in results], Tout=[t.dtype for t in operands],
    )  # fmt: skip
    token.assign(after)
    return list(made)


def static_shape(tensor: Any, name: str) -> list[int]:
    """XLA's programs know all shapes."""
    if tensor.shape.is_fully_defined():
        return [int(n) for n in tensor.shape]
    raise ValueError(
        f"'{name}': in a function that XLA compiles (jit_compile=True) the shape of what is "
        f"communicated must be known when the function is traced, but it is {tensor.shape}. Give "
        "it with tf.ensure_shape() or the function's input_signature, pass sparse_as_dense=True "
        "if it is that of a tf.IndexedSlices, or use jit_compile=False."
    )


def refuse(
    what: str, instead: str = "call it outside of it, or use jit_compile=False"
) -> NotImplementedError:
    return NotImplementedError(
        f"{what} cannot be in a function that XLA compiles (jit_compile=True): {instead}"
    )


def check_served() -> None:
    """A sentence now, where XLA would say much later, in its own words, that it cannot compile the
    function."""
    if problem():
        raise refuse(
            f"with TensorFlow {tf.__version__}, hvdlite's operations",
            f"{problem()}. Use jit_compile=False",
        )
    if not tf.compat.v1.executing_eagerly_outside_functions():
        raise refuse("in a graph of TensorFlow 1, hvdlite's operations", "use jit_compile=False")
    if _sees_gpus() and (why_not := problem(on_gpus=True)):
        raise refuse(
            "on a GPU, hvdlite's operations",
            f"{why_not}. Use jit_compile=False (Keras compiles by itself where it sees a GPU), or "
            "hide the GPUs with tf.config.set_visible_devices([], 'GPU')",
        )


def _sees_gpus() -> bool:
    return bool(tf.config.list_logical_devices("GPU"))


@functools.cache
def problem(*, on_gpus: bool = False) -> str:
    """Registers the handler. Why that cannot be, as a sentence's part; empty if it can."""
    name = "hvdlite_xla_register_in_tensorflow" + ("_on_cuda" if on_gpus else "")
    register = getattr(xla.library(), name)
    register.restype = ctypes.c_char_p
    return str(register(xla.TARGET.encode()).decode())


@functools.cache
def _token() -> Any:
    with tf.init_scope():  # it outlives the graph that needs it first
        return tf.Variable(0.0, trainable=False, name="hvdlite_order")


# ---- collectives: see by_kernel, by_numpy
#
# All shapes are known when the function is traced, so all ranks have equally many rows there. Each
# call blocks a thread of XLA's until all ranks have come; calls run one at a time, in the program's
# order.


def emit(call: Call, tensors: Sequence[Any]) -> list[Any]:
    given = [static_shape(tensor, str(call.name)) for tensor in tensors]
    known = compiled(call, given, "in a function that XLA compiles (jit_compile=True)")
    if call.operation.result is not EXCHANGED:
        return node(call, tensors, known.shapes)
    if call.splits is not None:
        wanted = tf.get_static_value(call.splits)
        if wanted is None or wanted.tolist() not in ([], known.received):
            raise refuse(
                "alltoall with splits",
                "only the other ranks know the shape of its result. Leave splits= out, or call it "
                "outside",
            )
    return [*node(call, tensors, known.shapes), tf.constant(known.received, tf.int32)]


def gradients(call: Call, tensors: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """All in one call, under the scope that their names have in common."""
    return emit(call._replace(name=names[0].rpartition("/")[0] or names[0], grouped=True), tensors)


def join(name: str) -> Any:
    raise refuse("hvd.join()")
