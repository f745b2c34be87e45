"""Joins a job whose ranks have met at a store of torch.distributed already."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from typing import Any

from hvdlite.job import basics, torch_environment

_KEY = "hvdlite"


def join(store: Any, rank: int, size: int) -> Callable[[], None] | None:
    """Makes the process group's ranks the job's. Returns what leaves the job, or None if the
    program has joined it itself.

    `store` has torch's set, get and delete_key. Raises RuntimeError if the job has other ranks.
    """
    leaves = None
    if not basics.is_initialized():
        if _is_launched_as(rank, size):
            basics.init()
        else:
            _meet(store, rank, size)
        leaves = basics.shutdown
    if (basics.rank(), basics.size()) != (rank, size):
        raise RuntimeError(
            f"the process group has rank {rank} of {size}, but hvdlite's job has rank "
            f"{basics.rank()} of {basics.size()}: the default group of the backend hvdlite has all "
            "ranks of the job, in the same order"
        )
    return leaves


def _is_launched_as(rank: int, size: int) -> bool:
    """Whether hvdliterun has started this process as this rank. A rank may start processes of its
    own, which inherit its variables."""
    if os.environ.get("HVDLITE_MEMBER"):  # of an elastic job: the driver numbers the ranks
        return True
    told = (os.environ.get("HVDLITE_RANK"), os.environ.get("HVDLITE_SIZE"))
    return told == (str(rank), str(size))


def _meet(store: Any, rank: int, size: int) -> None:
    """Rank 0 writes into the store where the ranks meet. The store does not authenticate its
    clients, so the secret stays there only until all ranks have come."""
    if size == 1:
        basics.init(rank=0, size=1)
        return
    if rank == 0:
        told = f"{torch_environment.free_addresses()} {secrets.token_hex(32)}"
        store.set(_KEY, told)
    else:
        told = store.get(_KEY).decode()
    rendezvous, secret = told.split()
    try:
        basics.init(rank=rank, size=size, rendezvous=rendezvous, secret=secret)
    finally:
        if rank == 0:
            with contextlib.suppress(RuntimeError):  # not every store of torch can delete
                store.delete_key(_KEY)
