"""Collectives inside programs that XLA compiles, for whichever framework brings XLA: the handler,
and how a call is described.

A call has the tensors as operands and an order token behind them, a scalar float32; its results are
as many tensors and the token again. The handler (csrc/ingraph/xla.cc) blocks a thread of XLA's,
which may have only two, and runs independent calls in any order. So calls of one program must
depend on one another: each takes the token that the one before has returned.
"""

from __future__ import annotations

import ctypes
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
