"""Rounds by a codec of the core: at once, and as one call of a compiled program."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from hvdlite.adapter.compression.journeys import start_encoded
from hvdlite.adapter.compression.methods import Encoded
from hvdlite.core.engine import codecs, run_all
from hvdlite.core.operations import Call
from hvdlite.jax import trace, traced
from hvdlite.jax.compression.algebra import ALGEBRA


def by_codec(call: Call, asked: dict[int, Encoded]) -> dict[int, Any]:
    """The answers: sum and residual of each. All are by the same codec."""
    if trace.is_tracing():
        return _traced(call, asked)
    pending = [
        start_encoded(ALGEBRA, call._replace(name=f"{call.name}.{number}"), each)
        for number, each in asked.items()
    ]
    return dict(zip(asked, run_all(pending), strict=True))


def _traced(call: Call, asked: dict[int, Encoded]) -> dict[int, Any]:
    first = next(iter(asked.values()))
    number, _ = codecs()[first.codec]
    arrays = [jnp.asarray(each.array) for each in asked.values()]
    residuals = [jnp.asarray(each.residual) for each in asked.values() if each.residual is not None]
    totals, after = traced.emit_encoded(
        call._replace(grouped=len(arrays) > 1), arrays, residuals, first.step, number,
        first.parameter, first.seed,
    )  # fmt: skip
    kept = after or [None] * len(arrays)
    return dict(zip(asked, zip(totals, kept, strict=True), strict=True))
