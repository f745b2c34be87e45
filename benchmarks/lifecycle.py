"""What hvdlite costs besides its collectives: doing nothing, its memory, and starting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import launch
from group import Group, Lost

_SEGMENT_SHARE_MIB = 2.0  # 4 slots of 256 KiB, and as much again for pipes and flags
_FUSION_THRESHOLD_MIB = 128.0


def idle(backends: Sequence[launch.Backend], seconds: float) -> dict[str, Any]:
    """Share of a core that each backend's rank takes while the program sleeps, after an
    allreduce."""
    share: dict[str, float] = {}
    for backend in backends:
        try:
            with Group(backend, 2) as group:
                group.block(
                    op="allreduce", dtype="float32", bytes=4096, warmup=1, iterations=10, limit=1.0
                )
                answers = group.ask(op="idle", seconds=seconds)
                share[backend.name] = max(answer["cpu"] for answer in answers) / seconds
        except Lost as reason:
            print(reason, file=sys.stderr)
    return {"seconds": seconds, "share": share}


def memory(backend: launch.Backend, operations: int) -> dict[str, Any]:
    """Memory of a rank: when it starts, with its tensors, after large allreduces, and after very
    many small ones."""
    small = {"op": "allreduce", "dtype": "float32", "bytes": 4096, "warmup": 1, "limit": 3600.0}
    large = {**small, "bytes": 64 << 20}
    steps: list[dict[str, Any]] = []

    with Group(backend, 2) as group:

        def look(at: str) -> dict[str, Any]:
            steps.append(
                {"at": at}
                | {k: v / 1024 for k, v in group.ask(op="memory")[0].items() if k != "spent"}
            )
            return steps[-1]

        look("numpy is loaded, hvd.init() is done")
        group.ask(op="allocate", dtype="float32")
        before = look("and it has a tensor of 64 MiB")
        group.block(**large, iterations=10)
        after = look("and 10 allreduces of it")
        group.block(**small, iterations=min(operations, 20_000))
        settled = look(f"and {min(operations, 20_000):,} of 4 KiB")
        for done in range(0, operations, 100_000):
            group.block(**small, iterations=min(100_000, operations - done))
        last = look(f"and {operations:,} more of 4 KiB")
    return {
        "steps": steps,
        "operations": operations,
        "extra_mib": (after["private"] + after["shared"]) - (before["private"] + before["shared"]),
        "allowed_mib": _SEGMENT_SHARE_MIB + _FUSION_THRESHOLD_MIB,
        "growth_mib": (last["private"] + last["shared"]) - (settled["private"] + settled["shared"]),
    }


_IMPORT = """
import json, time
import numpy
t = time.perf_counter()
import hvdlite
hvdlite.allreduce, hvdlite.init
print(json.dumps(time.perf_counter() - t))
"""
# perf_counter is the same clock in all processes of a machine.
_FIRST = """
import json, sys, time
import numpy as np
import hvdlite as hvd
x = np.ones(1024, np.float32)
hvd.init, hvd.allreduce
t0 = time.perf_counter()
hvd.init()
t1 = time.perf_counter()
hvd.allreduce(x)
t2 = time.perf_counter()
open(f"{sys.argv[1]}/{hvd.rank()}", "w").write(json.dumps([t0, t1, t2]))
"""


def startup(processes: int) -> dict[str, Any]:
    imports, inits, firsts, jobs = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "first.py")
        program.write_text(_FIRST)
        for _ in range(processes):
            imports.append(json.loads(_run([sys.executable, "-c", _IMPORT], folder)))
            _run([launch.HVDLITERUN, "-np", "2", sys.executable, str(program), folder], folder)
            ranks = [json.loads(Path(folder, str(rank)).read_text()) for rank in range(2)]
            # From when the later rank comes: before that, the other one only waits for it.
            begin = max(rank[0] for rank in ranks)
            inits.append(max(rank[1] for rank in ranks) - begin)
            firsts.append(max(rank[2] for rank in ranks) - begin)
            jobs.append(max(rank[2] - rank[0] for rank in ranks))
    rows = [
        (
            "`import hvdlite` with all that init and allreduce need, numpy being loaded",
            imports,
            0.05,
        ),
        ("`hvd.init()` of 2 ranks, from when the later one calls it", inits, None),
        ("the same with the first allreduce", firsts, 0.1),
        ("the same as the earlier rank sees it, which waits for the later", jobs, None),
    ]
    return {
        "processes": processes,
        "rows": [
            {
                "what": what,
                "median": median(values),
                "low": min(values),
                "high": max(values),
                "limit": limit,
            }
            for what, values, limit in rows
        ],
    }


def _run(command: list[str], folder: str) -> str:
    """`python -c` imports what lies in its folder first: not the repository's."""

    def prefer() -> None:
        if os.geteuid() == 0:
            os.setpriority(os.PRIO_PROCESS, 0, -18)

    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder, preexec_fn=prefer
    )
    return done.stdout
