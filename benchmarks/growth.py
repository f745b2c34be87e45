"""What agreeing costs as ranks are added: runs cpp/negotiation_bench.cc."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any


def measure(program: Path) -> dict[str, Any]:
    return {
        "one host": _rows(program, "shm", 256),
        "every rank a host": _rows(program, "net", 32),
    }


def _rows(program: Path, communicator: str, largest: int) -> list[dict[str, Any]]:
    done = subprocess.run([program, communicator, str(largest)], stdout=subprocess.PIPE, text=True, timeout=1200)
    return [json.loads(line) for line in done.stdout.splitlines()]
