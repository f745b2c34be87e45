"""torchrun's variables in an elastic job: `--torch-env` renews them in each generation.

So `torch.distributed.init_process_group()` works within the function under `hvd.elastic.run`. Each
generation meets at a port of its own, as sockets of the one before may still be open.
"""

from __future__ import annotations

import os

from hvdlite.arrays.objects import broadcast_object
from hvdlite.job.membership import Member
from hvdlite.launch import plan
from hvdlite.rendezvous import addresses

ASKED_FOR = "HVDLITE_TORCH_ENV"


def renew(member: Member) -> None:
    """All ranks of the generation call this. Does nothing if nothing has asked for it."""
    if os.environ.get(ASKED_FOR) != "1":
        return
    place = member.place
    several = place.local_size < place.size
    mine = (_address() if several else "127.0.0.1", addresses.quiet_port())
    host, port = broadcast_object(mine, 0)
    torch = plan.torch_place(
        place.rank, place.size, place.local_rank, place.local_size, place.cross_rank,
        place.cross_size,
    )  # fmt: skip
    torch["TORCHELASTIC_RESTART_COUNT"] = str(member.generation - 1)
    # hvd.init() refuses variables that contradict each other.
    os.environ.update(torch | plan.numbers(**vars(place)) | plan.torch_meeting(host, port))


def _address() -> str:
    """Of this host, for other hosts."""
    names = os.environ.get("HVDLITE_NETWORK_INTERFACES", "")
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    return next(iter(addresses.of_this_machine(chosen)), "127.0.0.1")
