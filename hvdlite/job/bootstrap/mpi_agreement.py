"""Asks whether all ranks have an MPI before it is initialised, if the ranks meet without it.
MPI_Init waits for every process that the launcher has started, so a rank that cannot come would
leave the others there for ever."""

from __future__ import annotations

import itertools

from hvdlite.job.bootstrap.offer import Place
from hvdlite.launch.environment import Identity
from hvdlite.rendezvous import StoreClient

# init() may be called again, and then uses new keys.
_attempts = itertools.count()


def obstacle(me: Identity, place: Place, here: str, seconds: float) -> str:
    """Returns why not all ranks can initialise MPI, the same text on all of them; empty: they can.
    `here`: why this rank cannot. Rank 0 waits for half of the time, because the others wait for its
    answer. Raises TimeoutError if the answer has not come."""
    key = f"{me.apart}mpi/{next(_attempts)}"
    with StoreClient(place.address, place.secret, seconds) as client:
        client.set(f"{key}/{me.rank}", here.encode())
        if me.rank == 0:
            client.set(f"{key}/verdict", _verdict(client, key, me.size, seconds / 2).encode())
        try:
            return client.get(f"{key}/verdict", seconds).decode()
        except TimeoutError:
            raise TimeoutError(
                f"rank 0 has not asked about MPI within {seconds:.0f} s: it has not called init(), "
                "or has another "
                "HVDLITE_CPU_OPERATIONS (HVDLITE_START_TIMEOUT sets how long to wait)"
            ) from None


def _verdict(client: StoreClient, key: str, size: int, seconds: float) -> str:
    try:
        said = client.collect(key, size, seconds)
    except TimeoutError:
        return f"not all ranks have asked about MPI within {seconds:.0f} s"
    for rank, why in enumerate(said):
        if why:
            return f"rank {rank} cannot use it: {why.decode()}"
    return ""
