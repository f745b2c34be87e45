"""Collectives inside programs that XLA compiles, for whichever framework brings XLA: the handler,
and how a call is described.

A call has the tensors as operands and an order token behind them, a scalar float32; its results are
as many tensors and the token again. The handler (csrc/ingraph/xla.cc) blocks a thread of XLA's,
which may have only two, and runs independent calls in any order. So calls of one program must
depend on one another: each takes the token that the one before has returned.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hvdlite.core import engine
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import set_id_of

#: The name under which the handler is registered.
TARGET = "hvdlite"

_library: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """libhvdlite_xla.so, which shares the job with this package's native core."""
    global _library
    if _library is None:
        _library = ctypes.CDLL(engine.library("libhvdlite_xla.so"))
    return _library


def waiting() -> int:
    """How many threads wait in the handler."""
    return int(library().hvdlite_xla_waiting())


def attributes(call: Call, name: str) -> dict[str, Any]:
    """What a call's handler must know beside the tensors."""
    set_id = set_id_of(call.process_set)
    members = engine.ranks_of(set_id) if set_id else []
    return {
        "kind": np.int32(call.operation.kind),
        "name": name,
        "process_set": np.int32(set_id),
        "members": np.array(members, np.int32),
        "op": np.int32(call.op),
        "root": np.int64(call.root),
        "prescale": np.float64(call.prescale),
        "postscale": np.float64(call.postscale),
    }


def codec_attributes(codec: int, parameter: float, seed: int, residuals: int) -> dict[str, Any]:
    """What the handler must know besides for an allreduce by a codec. Its operands are the tensors,
    their residuals or none, the number of the step as a scalar float32, and the token; its results
    are the sums, the new residuals, and the last two again."""
    return {
        "codec": np.int32(codec),
        "codec_parameter": np.float64(parameter),
        "codec_seed": np.int64(seed),
        "residuals": np.int32(residuals),
    }


# ---- a call as a StableHLO module, in text: one custom call of the handler

Shape = Sequence[int]


def module(operands: Sequence[Shape], results: Sequence[Shape], elements: Sequence[str],
           how: Mapping[str, Any], platforms: int) -> str:  # fmt: skip
    """`elements`: of the operands and the results, in MLIR's words; `how`: attributes()."""
    given = _types(operands, elements)
    made = _types(results, elements)
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(given))
    names = ", ".join(f"%a{i}" for i in range(len(given)))
    if platforms > 1:  # which one it has become is told first
        arguments = f"%platform: tensor<i32>, {arguments}"
    token = len(given) - 1  # goes through the call as it is
    returned = ", ".join([*(f"%r#{i}" for i in range(token)), "%after"])
    given_types, made_types = ", ".join(given), ", ".join(made)
    # With side effects, so that a call whose result is not used on this rank still happens; with
    # layouts, because XLA would otherwise choose those of its neighbours. The token changes its
    # sign, so that the call is not the root of a program: TensorFlow 2.19 reads the root's
    # attributes as its own JSON where it compiles a matrix product, and aborts.
    return f"""module @hvdlite {{
  func.func public @main({arguments}) -> ({made_types}) {{
    %r:{len(made)} = stablehlo.custom_call @{TARGET}({names}) {{
      api_version = 4 : i32, has_side_effect = true, backend_config = {{{_attributes(how)}}},
      output_operand_aliases = [#stablehlo.output_operand_alias<
        output_tuple_indices = [{token}], operand_index = {token}, operand_tuple_indices = []>],
      operand_layouts = [{_layouts(operands)}], result_layouts = [{_layouts(results)}]
    }} : ({given_types}) -> ({made_types})
    %after = stablehlo.negate %r#{token} : {made[token]}
    return {returned} : {made_types}
  }}
}}"""


def _types(shapes: Sequence[Shape], elements: Sequence[str]) -> list[str]:
    return [
        f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"
        for shape, element in zip(shapes, elements, strict=True)
    ]


def _layouts(shapes: Sequence[Shape]) -> str:
    """Row by row, each."""
    orders = [list(reversed(range(len(shape)))) for shape in shapes]
    return ", ".join(f"dense<{order or ''}> : tensor<{len(order)}xindex>" for order in orders)


def _attributes(how: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_attribute(value)}" for name, value in how.items())


def _attribute(value: Any) -> str:
    if isinstance(value, str):
        return '"' + "".join(f"\\{byte:02X}" for byte in value.encode()) + '"'
    if isinstance(value, np.ndarray):
        return f"array<i32: {', '.join(map(str, value))}>" if value.size else "array<i32>"
    if isinstance(value, np.float64):  # its bits, because decimals would be rounded
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X} : f64"
    return f"{value} : i{8 * value.dtype.itemsize}"
