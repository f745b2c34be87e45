"""Which knobs rank 0 reports."""

from __future__ import annotations

from hvdlite.base import knobs
from hvdlite.job.pulse import changed


def test_only_knobs_that_differ_and_that_are_no_secret() -> None:
    assert changed(knobs.resolve({})) == {}
    set_by_hand = {
        "HVDLITE_OVERLAP": "on",
        "HVDLITE_SECRET_FILE": "/home/me/secret",
        "HVDLITE_MONITOR": "1",
        "HVDLITE_MONITOR_DETAILS": "1",
        "HVDLITE_CPU_OPERATIONS": "gloo",
    }
    assert changed(knobs.resolve(set_by_hand)) == {"HVDLITE_OVERLAP": "on"}
    by_hand = {"HVDLITE_MONITOR": "5", "HVDLITE_CPU_OPERATIONS": "net"}
    assert changed(knobs.resolve(by_hand)) == {
        "HVDLITE_CPU_OPERATIONS": "net", "HVDLITE_MONITOR": "5.0"
    }  # fmt: skip
