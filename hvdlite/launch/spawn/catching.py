"""Which processes catch a signal. SIGQUIT asks a rank what it does, and would kill a process that
does not catch it, such as a shell around the rank."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable


def catching(pids: Iterable[int], signal_number: int) -> list[int]:
    """Returns those that have a handler for this signal."""
    found: list[int] = []
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
            if catches(file.read(), signal_number):
                found.append(pid)
    return found


def catches(status: str, signal_number: int) -> bool:
    """Whether the process catches it whose /proc/PID/status reads so. Pure."""
    words = status.partition("\nSigCgt:")[2].split()
    return bool(words) and bool(int(words[0], 16) >> (signal_number - 1) & 1)
