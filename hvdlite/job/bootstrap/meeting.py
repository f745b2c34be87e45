"""From the chosen way to meet to the place where the store is."""

from __future__ import annotations

import time
from functools import partial

from hvdlite.exceptions import HorovodInternalError
from hvdlite.job.bootstrap import by_http, by_mpi, by_ports, by_socket, by_torch, opening
from hvdlite.job.bootstrap.mpi_library import Wish
from hvdlite.job.bootstrap.offer import Place, through
from hvdlite.launch.environment import Identity
from hvdlite.launch.environment.identity import (
    AtPorts,
    AtStore,
    OnThisHost,
    OverHttp,
    OverTorchStore,
    RendezvousMethod,
)
from hvdlite.rendezvous import HandshakeError, StoreClient, addresses

# The limit for an answer from a store that exists. No rank waits for it if there is no store.
_LOOK_SECONDS = 5.0

# Above this, the clocks of system calls overflow.
_LONGEST_SECONDS = 1e6

# After shutdown(), init() returns to the place where the ranks have met before.
_known: dict[tuple[RendezvousMethod, str], Place] = {}


def meet(me: Identity, interfaces: str, seconds: float, wish: Wish) -> Place | None:
    """Returns the place where this rank meets the others, within the time limit. Returns None if it
    is alone; no socket was opened then.

    Raises HorovodInternalError or TimeoutError if the ranks could not meet, and ValueError or
    RuntimeError if they never can. Ctrl-C ends every wait.
    """
    if me.size == 1 or me.rendezvous_method is None:
        return None
    key = (me.rendezvous_method, me.apart)
    place = _known.get(key) if wish.communicator is None else by_mpi.recall(wish.communicator)
    if place is None:
        names = [name.strip() for name in interfaces.split(",") if name.strip()]
        try:
            place = _meet(me, me.rendezvous_method, names, min(seconds, _LONGEST_SECONDS), wish)
        except OSError as error:
            kind = TimeoutError if isinstance(error, TimeoutError) else HorovodInternalError
            raise kind(
                f"rank {me.rank} of {me.size}, started by {me.launcher}, could not meet the other "
                f"ranks: {error} (HVDLITE_START_TIMEOUT sets how long to wait)"
            ) from error
        if wish.communicator is None:
            _known[key] = place
        else:
            by_mpi.remember(wish.communicator, place)
    return place


def _meet(
    me: Identity, meeting: RendezvousMethod, interfaces: list[str], seconds: float, wish: Wish
) -> Place:
    deadline = time.monotonic() + seconds
    if isinstance(meeting, AtStore):
        return _at_store(me, meeting, seconds)
    if isinstance(meeting, AtPorts):
        return by_ports.meet(me, meeting, seconds)
    if isinstance(meeting, OnThisHost):
        by_this_host = partial(by_socket.say, meeting.job + me.apart, me.secret is not None)
        return through(by_this_host, me, interfaces, deadline)
    if isinstance(meeting, OverHttp):
        return through(partial(by_http.say, meeting.address, me.apart), me, interfaces, deadline)
    if isinstance(meeting, OverTorchStore):
        return through(
            partial(by_torch.say, meeting.address, meeting.job + me.apart), me, interfaces, deadline
        )
    return through(partial(by_mpi.say, me, wish), me, interfaces, deadline)


def _at_store(me: Identity, meeting: AtStore, seconds: float) -> Place:
    assert me.secret is not None
    if me.rank == 0 and meeting.may_open:
        return _open_unless_there(meeting, me.secret)
    if len(meeting.addresses) == 1:  # the core's client tries again, and says what it saw
        return Place(meeting.addresses[0], me.secret)
    address, client = addresses.reach(meeting.addresses, me.secret, seconds)
    client.close()
    return Place(address, me.secret)


def _open_unless_there(meeting: AtStore, secret: bytes) -> Place:
    for address in meeting.addresses:
        try:
            StoreClient(address, secret, _LOOK_SECONDS).close()
            return Place(address, secret)
        except HandshakeError:
            raise
        except OSError:
            continue
    for host, port in meeting.addresses:
        if addresses.is_of_this_machine(host):
            return Place(
                ("127.0.0.1", opening.open_store(secret, on_one_host=False, port=port)), secret
            )
    tried = ", ".join(f"{host} port {port}" for host, port in meeting.addresses)
    raise ConnectionError(
        f"no store answers at {tried}, and rank 0 cannot open one there, because its host does "
        "not have that address: give an address of rank 0's host"
    )
