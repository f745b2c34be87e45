"""What is compiled: each call happens, once, in one order on all ranks, and programs outlive
shutdown()."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import hvdlite as core
from checks import check, needs
from checks.api import api, hvd
from checks.here import SUM, Here, raises

COMPILED = "compiled"


def _needs_programs() -> None:
    needs(COMPILED in api.modes, "programs that XLA compiles, with custom calls")


def calls_of(program: str) -> tuple[int, int]:
    """How many of hvdlite's calls are in a compiled program, and how many come one after the other,
    because each needs something of the last."""
    depths: dict[str, int] = {}
    calls = 0
    for name, line in re.findall(
        r"^ *(?:ROOT )?(%?[\w.-]+) = (.*)$", program.split("ENTRY")[1], re.M
    ):
        ours = 'custom_call_target="hvdlite"' in line  # operands come first
        depths[name] = (
            max((depths.get(other, 0) for other in re.findall(r"%?[\w.-]+", line)), default=0)
            + ours
        )
        calls += ours
    return calls, max(depths.values())


@check(seconds=30)
def calls_are_neither_merged_nor_dropped_nor_folded(here: Here) -> None:
    _needs_programs()

    def step(x: Any) -> Any:
        hvd.allreduce(x, op=SUM, name="unused")
        first, second = (
            hvd.allreduce(x, op=SUM, name="twice"),
            hvd.allreduce(x, op=SUM, name="twice"),
        )
        return first + second + hvd.allreduce(api.ones(()), op=SUM, name="constant")

    compiled = api.made(COMPILED, step)
    for again in range(3):
        before = core.metrics()["operations"]
        assert api.array(compiled(api.ones(4))).tolist() == [3 * here.size] * 4
        assert core.metrics()["operations"] - before == 4, again


@check(seconds=30)
def independent_calls_come_in_one_order_on_all_ranks(here: Here) -> None:
    """XLA would run them in any order, and each blocks one of its few threads: 24 at once could be
    a deadlock."""
    _needs_programs()

    def step(x: Any) -> Any:
        return [hvd.allreduce(x * i, op=SUM) for i in range(1, 25)]

    x, compiled = api.full(50_000, 0.1), api.made(COMPILED, step)
    assert calls_of(api.program(step, x)) == (24, 24)
    for _ in range(3):
        for i, got in enumerate(compiled(x), 1):
            np.testing.assert_allclose(api.array(got)[::9999], 0.1 * i * here.size, rtol=1e-5)


@check(min_ranks=2)
def ranks_with_different_rows_are_told_so(here: Here) -> None:
    _needs_programs()

    def rows(x: Any) -> Any:
        return hvd.allgather(x, name="rows")

    with raises((ValueError, api.invalid(COMPILED)), "'rows'", "the same number of rows"):
        api.run(COMPILED, rows, api.ones((2 + (here.rank == 0), 3)))
    assert api.array(api.run(COMPILED, rows, api.ones(1))).tolist() == [1] * here.size


@check()
def a_program_outlives_shutdown_and_init(here: Here) -> None:
    _needs_programs()
    step = api.made(COMPILED, lambda x: hvd.allreduce(x, op=SUM))
    assert api.array(step(api.ones(2))).tolist() == [here.size] * 2
    core.shutdown()
    with raises((core.NotInitializedError, api.mismatch(COMPILED)), "hvd.init()"):
        step(api.ones(2))
    core.init()
    assert api.array(step(api.ones(2))).tolist() == [here.size] * 2
