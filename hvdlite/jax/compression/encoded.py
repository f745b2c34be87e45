"""Rounds by a codec of the core as one call of a compiled program."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from hvdlite.adapter.compression.methods import Encoded
from hvdlite.core.engine import codecs
from hvdlite.core.operations import Call
from hvdlite.jax import traced


def in_program(call: Call, asked: dict[int, Encoded]) -> dict[int, Any]:
    """The answers: sum and residual of each. All are by the same codec."""
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
