"""What many ranks cost that move no data: negotiation and launching, for simulate.py."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import launch

_ROUNDS = 3
_PATIENCE = 600.0
_INIT = "import hvdlite as hvd; hvd.init(); hvd.shutdown()"


def negotiation(program: Path, largest: int) -> list[dict[str, Any]]:
    """What cpp/negotiation_bench.cc prints for 2, 4, ... ranks of one host."""
    done = subprocess.run(
        [program, "shm", str(largest)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the end of a rank is news to all others
        text=True,
        timeout=_PATIENCE,
        check=True,
        preexec_fn=_many_descriptors,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _many_descriptors() -> None:
    with contextlib.suppress(ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))


def launches(counts: Sequence[int], most_that_meet: int) -> list[dict[str, Any]]:
    """The seconds of whole jobs that do nothing, and of those whose ranks meet."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="hvdlite-many-") as folder:
        program = Path(folder, "init.py")
        program.write_text(_INIT)
        for ranks in counts:
            row: dict[str, Any] = {"ranks": ranks, "seconds": _seconds(ranks, "true")}
            if ranks <= most_that_meet:
                row["met"] = _seconds(ranks, sys.executable, str(program))
            rows.append(row)
            print(row, flush=True)
    return rows


def _seconds(ranks: int, *command: str) -> float:
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        subprocess.run(
            [launch.HVDLITERUN, "-np", str(ranks), "--start-timeout", "300", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PATIENCE,
            check=True,
            preexec_fn=_many_descriptors,
        )
        times.append(time.perf_counter() - began)
    return median(times)
