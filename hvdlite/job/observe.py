"""Observation of the job: timeline, counters, the last operations."""

from __future__ import annotations

import json
from typing import Any

from hvdlite import _core

__all__ = ["metrics", "recent_operations", "start_timeline", "stop_timeline"]


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Starts to write what happens to each tensor to a file that chrome://tracing and Perfetto
    open.

    Rank 0 writes. With HVDLITE_TIMELINE_RANKS=all every rank writes a file of its own.
    """
    _core.start_timeline(file_path, mark_cycles)


def stop_timeline() -> None:
    """Completes the file. Does nothing if no timeline is being written."""
    _core.stop_timeline()


def metrics() -> dict[str, Any]:
    """Returns this rank's counters since init(). On rank 0, `seconds_waited_for_rank` shows which
    ranks the others wait for."""
    text = _core.describe("metrics")
    return dict(json.loads(text)) if text else {}


def recent_operations() -> list[dict[str, Any]]:
    """Returns the last operations of this rank (HVDLITE_RECORDER_ENTRIES of them), oldest first.
    Works after a failure, too."""
    text = _core.describe("recent")
    return list(json.loads(text)) if text else []
