"""Where a process runs, by the same signs as the core's (csrc/rendezvous/host_id.cc)."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


def identity(environ: Mapping[str, str]) -> str:
    """Returns a text that is equal for processes that may share memory.

    Two nodes of Ray, or executors of Spark, on one machine have the same one. Two containers of a
    machine do not.
    """
    configured = environ.get("HVDLITE_HOST_ID", "")
    if configured:
        return configured
    boot = network = ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    with contextlib.suppress(OSError):
        network = str(os.stat("/proc/self/ns/net").st_ino)
    return f"{socket.gethostname()}#{boot}#{network}"
