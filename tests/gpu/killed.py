"""A rank dies while NCCL's kernels run: the others get HorovodInternalError, and their GPU stays
usable.

    hvdliterun -np 2 python tests/gpu/killed.py [--hosts]

The last rank kills itself. Exit codes are the launcher's, which reports that rank; each other rank
prints "survived" and the seconds from the death to the error.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch

import hvdlite.torch as hvd


def main() -> None:
    if "--hosts" in sys.argv:  # before the core reads it
        os.environ["NCCL_HOSTID"] = f"host-of-rank-{os.environ['HVDLITE_RANK']}"
    hvd.init()
    told = Path(tempfile.gettempdir()) / f"hvdlite-killed-{os.environ['HVDLITE_JOB_MARKS']}"
    x = torch.ones(1 << 22, device="cuda")
    try:
        for step in range(10_000):
            if step == 50 and hvd.rank() == hvd.size() - 1:
                told.write_text(repr(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)
            hvd.allreduce_(x, op=hvd.Average, name="x")
            torch.cuda.synchronize()
    except hvd.HorovodInternalError as lost:
        seconds = time.time() - float(told.read_text())
        assert float((torch.ones(10, device="cuda") * 2).sum()) == 20.0
        print(f"survived: {type(lost).__name__} after {seconds:.2f} s: {lost}", flush=True)
        return
    raise SystemExit("nobody noticed")


if __name__ == "__main__":
    main()
