"""A Call reaches the core whole."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("hvdlite._core", reason="the native core is not built here")

from hvdlite.core.collectives import Collectives  # noqa: E402
from hvdlite.core.operations import Call  # noqa: E402


def test_run_one_takes_every_field_of_a_call_of_one_tensor_that_is_waited_for_at_once() -> None:
    taken = [*inspect.signature(Collectives.run_one).parameters][2:]
    assert taken == [name for name in Call._fields if name not in ("grouped", "patient")]
