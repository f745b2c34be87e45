"""torch's own tests of its distributed package, over hvdlite in the place of gloo."""

from __future__ import annotations

import subprocess
import sys

import pytest
from installed import needs_installed
from launched import ROOT
from tier import TIER, one_of

needs_installed("torch")
pytest.importorskip("expecttest", reason="torch's tests need it: pip install expecttest")

_PARTS = (
    "test_all_gather", "test_all_reduce", "test_broadcast", "test_gather", "test_reduce",
    "test_scatter", "test_send_recv", "test_irecv", "test_isend", "test_batch_isend",
    "test_barrier", "test_ddp", "test_DistributedDataParallel", "test_accumulate_gradients",
    "test_static_graph", "test_sparse", "test_new_subgroups", "test_destroy", "test_get", "object",
)  # fmt: skip


@pytest.mark.costly
@pytest.mark.watchdog(900)
@pytest.mark.parametrize("part", [""] if TIER == "all" else one_of(_PARTS, "torch's own tests"))
def test_what_passes_with_gloo_passes_with_hvdlite(part: str) -> None:
    command = [sys.executable, str(ROOT / "tests" / "versions" / "torch_suites"), "wheel"]
    done = subprocess.run(
        [*command, *(["-k", part] if part else [])], capture_output=True, text=True, timeout=880
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NO REASON" not in done.stdout
    passed = int(done.stdout.splitlines()[-1].split("|")[2].split(",")[1])
    assert passed > (0 if part else 80), "few of them made a group of hvdlite"
