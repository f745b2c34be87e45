"""What autotuning must not change."""

from __future__ import annotations

from collections.abc import Mapping

from hvdlite.base import knobs

_TUNED = ("cycle_time", "fusion_threshold", "shm_small_bytes", "shm_chunk_bytes")


def kept(environ: Mapping[str, str]) -> str:
    """Returns what HVDLITE_AUTOTUNE_KEEP names and the knobs to which the user has given a value,
    separated by commas."""
    named = str(knobs.resolve(environ)["autotune_keep"])
    return ",".join(
        filter(None, [named, *(field for field in _TUNED if knobs.is_set(field, environ))])
    )
