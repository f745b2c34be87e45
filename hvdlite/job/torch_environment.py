"""torch.distributed beside a job of hvdlite: torchrun's variables for its ranks, and a job whose
ranks have met at torch's store.

In an elastic job, `--torch-env` renews the variables in each generation, so
`torch.distributed.init_process_group()` works within the function under `hvd.elastic.run`. Each
generation meets at a port of its own, as sockets of the one before may still be open.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple
from datetime import timedelta
from functools import partial
from typing import Any

from hvdlite import _core
from hvdlite.base import knobs
from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.job import basics, observe
from hvdlite.job.membership import Membership
from hvdlite.launch import plan
from hvdlite.rendezvous import addresses
from hvdlite.rendezvous.documents import RankNumbers

ASKED_FOR = "HVDLITE_TORCH_ENV"
# in torch's store
_KEY, _LEAVING, _ALL_LEAVE = "hvdlite", "hvdlite leaving", "hvdlite all leave"
_GRACE_SECONDS = 2.0
STALL = "stall_shutdown_time_seconds"

_operations_of_init: int | None = None


def renew(member: Membership) -> None:
    """All ranks of the generation call this. Does nothing if nothing has asked for it."""
    if os.environ.get(ASKED_FOR) != "1":
        return
    place = member.numbers
    several = place.local_size < place.size
    mine = (address(several), addresses.quiet_port())
    host, port = broadcast_object(mine, 0)
    torch = plan.torch_place(*astuple(place))
    torch["TORCHELASTIC_RESTART_COUNT"] = str(member.generation - 1)
    # hvd.init() refuses variables that contradict each other.
    os.environ.update(torch | plan.numbers(**vars(place)) | plan.torch_rendezvous(host, port))


def tell_numbers() -> None:
    """This rank has other numbers than its variables say. Where torch's ranks meet stays."""
    place = _place()
    os.environ.update(plan.torch_place(*astuple(place)) | plan.numbers(**vars(place)))


def _place() -> RankNumbers:
    return RankNumbers(
        basics.rank(), basics.size(), basics.local_rank(), basics.local_size(),
        basics.cross_rank(), basics.cross_size(),
    )  # fmt: skip


def announce(host: str, port: int) -> None:
    """Sets them for this rank of hvdlite's job. torch's ranks meet at a store that is served at
    `port` already."""
    place = plan.torch_place(*astuple(_place()))
    agent = {
        "TORCHELASTIC_RUN_ID": f"hvdlite-{port}",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    os.environ.update(place | agent | plan.torch_rendezvous(host, port))


def announce_alone() -> None:
    """This rank warms up, and torch's group has no other."""
    os.environ.update(plan.torch_place(0, 1, basics.local_rank(), 1, 0, 1))
    os.environ.update(plan.torch_rendezvous("127.0.0.1", addresses.quiet_port()))


def has_met() -> None:
    """torch's ranks have met in `hvdlite.torch.distributed.init()`."""
    global _operations_of_init
    _operations_of_init = _operations()


def is_silent() -> bool:
    """Whether this rank has taken part in no operation since it has met the others."""
    return _operations_of_init is not None and _operations_of_init == _operations()


def _operations() -> int | None:
    found: int | None = observe.metrics().get("operations")
    return found


def is_set(rank: int, size: int) -> bool:
    """Whether a launcher has set them for this rank."""
    told = [os.environ.get(name) for name in ("RANK", "WORLD_SIZE")]
    return told == [str(rank), str(size)] and all(
        os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT")
    )


def free_addresses() -> str:
    """Addresses of this host with one free port, for init(rendezvous=...)."""
    port = addresses.quiet_port()
    return ",".join(addresses.join_address(host, port) for host in addresses_of_this_host())


def addresses_of_this_host() -> list[str]:
    """Best first. Loopback serves the ranks on this host if it has no network."""
    return [*addresses.of_this_machine(_interfaces()), "127.0.0.1"]


def address(several_hosts: bool) -> str:
    """Of this host, for all ranks of the job."""
    return _address() if several_hosts else "127.0.0.1"


def _address() -> str:
    """Of this host, for other hosts."""
    return next(iter(addresses.of_this_machine(_interfaces())), "127.0.0.1")


def _interfaces() -> list[str]:
    names = os.environ.get("HVDLITE_NETWORK_INTERFACES", "")
    return [name.strip() for name in names.split(",") if name.strip()]


# ---- A job at torch's store


def join_at_store(
    store: Any, rank: int, size: int, timeout: timedelta
) -> Callable[[], None] | None:
    """Joins a job whose ranks have met at a store of torch.distributed already: makes the process
    group's ranks the job's. Returns what leaves the job, or None if the program has joined it
    itself.

    `store` has torch's methods. `timeout`: how long an operation waits for a rank that does not
    come. Raises RuntimeError if the job has other ranks.
    """
    leaves = None
    if not basics.is_initialized():
        with taking(timeout, STALL):
            if _is_launched_as(rank, size):
                basics.init()
            else:
                _meet(store, rank, size)
        leaves = partial(_leave, store, size)
    if (basics.rank(), basics.size()) != (rank, size):
        raise RuntimeError(
            f"the process group has rank {rank} of {size}, but hvdlite's job has rank "
            f"{basics.rank()} of {basics.size()}: the default group of the backend hvdlite has all "
            "ranks of the job, in the same order"
        )
    return leaves


@contextlib.contextmanager
def taking(timeout: timedelta, *fields: str) -> Iterator[None]:
    """For init(): these knobs are torch's timeout. Not where the user has chosen a time, nor where
    a driver decides."""
    free = [] if os.environ.get("HVDLITE_MEMBER") else fields
    ours = [
        knobs.by_field(field).environment[0]
        for field in free
        if not knobs.is_set(field, os.environ)
    ]
    os.environ.update(dict.fromkeys(ours, f"{max(timeout.total_seconds(), 0.001):g}"))
    try:
        yield
    finally:
        for variable in ours:
            del os.environ[variable]


def _leave(store: Any, size: int) -> None:
    """The job ends when its first rank leaves. Groups of other ranks may be at work still, so
    torch's ranks wait for each other, but not for long: one may have failed."""
    # torchrun's store may serve several jobs of these processes.
    counted, told = (f"{key} {basics.incarnation()}" for key in (_LEAVING, _ALL_LEAVE))
    deadline = time.monotonic() + _GRACE_SECONDS
    # The store may have left with its rank, and torch's prints what it does not get.
    with contextlib.suppress(Exception):
        if basics.is_initialized() and not _core.ended():
            if store.add(counted, 1) == size:
                store.set(told, "1")
            while not (store.check([told]) or _core.ended() or time.monotonic() > deadline):
                time.sleep(0.01)  # poll
    basics.shutdown()


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
        told = f"{free_addresses()} {secrets.token_hex(32)}"
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
