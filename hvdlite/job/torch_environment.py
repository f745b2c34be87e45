"""torchrun's variables, in the ranks of a job that another launcher has started.

In an elastic job, `--torch-env` renews them in each generation.

So `torch.distributed.init_process_group()` works within the function under `hvd.elastic.run`. Each
generation meets at a port of its own, as sockets of the one before may still be open.
"""

from __future__ import annotations

import os

from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.job import basics, observe
from hvdlite.job.membership import Member
from hvdlite.launch import plan
from hvdlite.rendezvous import addresses

ASKED_FOR = "HVDLITE_TORCH_ENV"

_operations_of_init: int | None = None


def renew(member: Member) -> None:
    """All ranks of the generation call this. Does nothing if nothing has asked for it."""
    if os.environ.get(ASKED_FOR) != "1":
        return
    place = member.place
    several = place.local_size < place.size
    mine = (address(several), addresses.quiet_port())
    host, port = broadcast_object(mine, 0)
    torch = plan.torch_place(
        place.rank, place.size, place.local_rank, place.local_size, place.cross_rank,
        place.cross_size,
    )  # fmt: skip
    torch["TORCHELASTIC_RESTART_COUNT"] = str(member.generation - 1)
    # hvd.init() refuses variables that contradict each other.
    os.environ.update(torch | plan.numbers(**vars(place)) | plan.torch_rendezvous(host, port))


def announce(host: str, port: int) -> None:
    """Sets them for this rank of hvdlite's job. torch's ranks meet at a store that is served at
    `port` already."""
    place = plan.torch_place(
        basics.rank(), basics.size(), basics.local_rank(), basics.local_size(),
        basics.cross_rank(), basics.cross_size(),
    )  # fmt: skip
    agent = {
        "TORCHELASTIC_RUN_ID": f"hvdlite-{port}",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    os.environ.update(place | agent | plan.torch_rendezvous(host, port))


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
    hosts = [*addresses.of_this_machine(_interfaces()), "127.0.0.1"]
    return ",".join(addresses.join_address(host, port) for host in hosts)


def address(several_hosts: bool) -> str:
    """Of this host, for all ranks of the job."""
    return _address() if several_hosts else "127.0.0.1"


def _address() -> str:
    """Of this host, for other hosts."""
    return next(iter(addresses.of_this_machine(_interfaces())), "127.0.0.1")


def _interfaces() -> list[str]:
    names = os.environ.get("HVDLITE_NETWORK_INTERFACES", "")
    return [name.strip() for name in names.split(",") if name.strip()]
