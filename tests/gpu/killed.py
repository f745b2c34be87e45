"""A rank dies while NCCL's kernels run: the others get HorovodInternalError, and their GPU stays
usable.

    hvdliterun -np 2 python tests/gpu/killed.py [--hosts]

The last rank kills itself. Exit codes are the launcher's, which reports that rank; each other rank
prints "survived" and the seconds in which the operation that fails was under way.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
from checking import pretend_hosts

import hvdlite.torch as hvd


def main() -> None:
    if "--hosts" in sys.argv:
        pretend_hosts()
    hvd.init()
    x = torch.ones(1 << 22, device="cuda")
    try:
        for step in range(10_000):
            if step == 50 and hvd.rank() == hvd.size() - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            began = time.monotonic()
            hvd.allreduce_(x, op=hvd.Average, name="x")
            torch.cuda.synchronize()
    except hvd.HorovodInternalError as lost:
        seconds = time.monotonic() - began
        assert float((torch.ones(10, device="cuda") * 2).sum()) == 20.0
        print(f"survived: {type(lost).__name__} after {seconds:.2f} s: {lost}", flush=True)
        return
    raise SystemExit("nobody noticed")


if __name__ == "__main__":
    main()
