"""Collectives inside compiled programs are calls of the core, not of Python."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import hvdlite.jax as hvd
from checks import ALWAYS, check
from checks.here import SUM, Here


@check(tags=[ALWAYS])
def a_compiled_collective_is_a_custom_call_of_hvdlites(here: Here) -> None:
    step = jax.jit(lambda x: hvd.allreduce(x, op=SUM, name="ways"))
    x = jnp.ones(3)
    program = step.lower(x).as_text()
    assert "hvdlite" in program and "callback" not in program, program
    assert step(x).tolist() == [here.size] * 3
