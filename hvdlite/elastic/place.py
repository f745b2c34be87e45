"""Where this process stands in an elastic job."""

from __future__ import annotations

from hvdlite.job import membership

__all__ = ["generation", "member", "slot"]


def generation() -> int:
    """Returns the number of the generation that this process is in; 0: none, or no elastic job."""
    found = membership.member()
    return found.generation if found else 0


def member() -> int:
    """Returns this process's number, which no other process of the job has or will have."""
    found = membership.member()
    return found.number if found else 0


def slot() -> int:
    """Returns the slot of this process on its host, which never changes: the index of its GPU.

    local_rank() becomes smaller when a neighbour dies.
    """
    found = membership.member()
    if found is not None:
        return found.slot
    from hvdlite.job import basics

    return basics.local_rank()
