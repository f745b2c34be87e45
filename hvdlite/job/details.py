"""What rank 0 also reports with HVDLITE_MONITOR_DETAILS, for `hvdlite report`: its slowest tensors,
versions and knobs. It costs no more than Recent does: the list is looked at as rarely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hvdlite.base import bundle, knobs
from hvdlite.job.recent import Recent
from hvdlite.job.versions import versions
from hvdlite.observe.report.details import Tally

# Values that hvdliterun itself sets.
_LAUNCHERS = {"monitor_seconds": 1.0, "monitor_details": True, "cpu_operations": "gloo"}


class Detailed(Recent):
    wants_all = True

    def __init__(self, values: Mapping[str, knobs.Value]) -> None:
        super().__init__()
        self._tally = Tally()
        self._knobs = changed(values)

    def take(self, recent: Sequence[dict[str, Any]]) -> None:
        self._tally.take(recent)
        seen = self._tally.details()
        seen.versions, seen.knobs = versions(), self._knobs
        self.details = seen.encode()


def changed(values: Mapping[str, knobs.Value]) -> dict[str, str]:
    """The knobs that have another value than their default, by the name of their variable, without
    secrets. Pure."""
    found = {
        knob.environment[0]: str(values[knob.field])
        for knob in knobs.KNOBS
        if values.get(knob.field, knob.default) not in (knob.default, _LAUNCHERS.get(knob.field))
    }
    return bundle.without_secrets(found)
