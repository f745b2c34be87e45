"""The battery for hvdlite.torch: as test_conformance.py, with the checks of the suite "torch"."""

from __future__ import annotations

import pytest
from battery import battery_of
from runner import Configuration

pytest.importorskip("torch", reason="torch is not installed")

CONFIGURATIONS = (
    *(Configuration(f"shm-{n}", "shm", n, suite="torch") for n in (1, 2, 3, 4)),
    Configuration("net-2", "net", 2, ("host0", "host1"), suite="torch"),
)

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS, limit=400)
