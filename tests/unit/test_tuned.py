"""What autotuning must not change."""

from __future__ import annotations

import pytest

from hvdlite.job import basics


@pytest.mark.parametrize(
    ("environ", "kept"),
    [
        ({}, ""),
        ({"HVDLITE_AUTOTUNE_KEEP": "net_byte_cost"}, "net_byte_cost"),
        ({"HOROVOD_CYCLE_TIME": "3", "HVDLITE_CYCLE_TIME": ""}, "cycle_time"),
        (
            {"HVDLITE_AUTOTUNE_KEEP": "net_byte_cost", "HVDLITE_SHM_CHUNK_BYTES": "8192"},
            "net_byte_cost,shm_chunk_bytes",
        ),
    ],
)
def test_what_the_user_names_and_sets_is_kept(environ: dict[str, str], kept: str) -> None:
    assert basics.kept_by_autotuning(environ) == kept
