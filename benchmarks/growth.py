"""What agreeing costs as ranks are added: runs cpp/negotiation_bench.cc."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
from pathlib import Path
from typing import Any

LARGEST = 256


def measure(program: Path) -> dict[str, Any]:
    return {"one host": _rows(program, "shm"), "every rank a host": _rows(program, "net")}


def _rows(program: Path, communicator: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [program, communicator, str(LARGEST)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the end of a rank is news to 255 others
        text=True,
        timeout=1200,
        preexec_fn=_many_descriptors,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _many_descriptors() -> None:
    """All ranks are threads of one process, and each has a link to every other. Without root fewer
    ranks must do."""
    wanted = LARGEST * LARGEST * 2
    with contextlib.suppress(ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
