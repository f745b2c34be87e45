"""jsrun's command line, for a job in IBM's LSF. Pure.

It is only printed and never run: we have no LSF, and do not offer what we have never run.
"""

from __future__ import annotations

import math

from hvdlite.launch.spawn.request import Launch, Request


def launch(request: Request) -> Launch:
    """One resource set per host with all of the host's resources, because programs choose their GPU
    by local rank."""
    hosts = max(1, len(request.hosts))
    per_host = max((host.slots for host in request.hosts), default=request.processes)
    argv = [
        "jsrun",
        f"--nrs={min(hosts, math.ceil(request.processes / per_host))}",
        f"--tasks_per_rs={min(per_host, request.processes)}",
        "--rs_per_host=1",
        "--cpu_per_rs=ALL_CPUS",
        "--gpu_per_rs=ALL_GPUS",
        "--exit_on_error=1",
    ]
    argv += request.binding_arguments or ["--bind=none"]
    return Launch([*argv, *request.extra_arguments, *request.command])
