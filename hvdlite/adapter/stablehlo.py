"""A collective as a StableHLO module, in text: one custom call of the handler that adapter/xla.py
describes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hvdlite.adapter.xla import TARGET

Shape = Sequence[int]


def module(operands: Sequence[Shape], results: Sequence[Shape], elements: Sequence[str],
           how: Mapping[str, Any], platforms: int) -> str:  # fmt: skip
    """`elements`: of the operands and the results, in MLIR's words; `how`: xla.attributes()."""
    given = _types(operands, elements)
    made = _types(results, elements)
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(given))
    names = ", ".join(f"%a{i}" for i in range(len(given)))
    if platforms > 1:  # which one it has become is told first
        arguments = f"%platform: tensor<i32>, {arguments}"
    token = len(given) - 1  # goes through the call as it is
    returned = ", ".join(f"%r#{i}" for i in range(len(made)))
    given_types, made_types = ", ".join(given), ", ".join(made)
    # With side effects, so that a call whose result is not used on this rank still happens; with
    # layouts, because XLA would otherwise choose those of its neighbours.
    return f"""module @hvdlite {{
  func.func public @main({arguments}) -> ({made_types}) {{
    %r:{len(made)} = stablehlo.custom_call @{TARGET}({names}) {{
      api_version = 4 : i32, has_side_effect = true, backend_config = {{{_attributes(how)}}},
      output_operand_aliases = [#stablehlo.output_operand_alias<
        output_tuple_indices = [{token}], operand_index = {token}, operand_tuple_indices = []>],
      operand_layouts = [{_layouts(operands)}], result_layouts = [{_layouts(results)}]
    }} : ({given_types}) -> ({made_types})
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
