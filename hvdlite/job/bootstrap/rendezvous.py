"""How the ranks of each launcher find their store."""

from __future__ import annotations

import time
from functools import partial

from hvdlite.exceptions import HorovodInternalError
from hvdlite.job.bootstrap import by_ports, by_socket, channels, mpi
from hvdlite.job.bootstrap.mpi import MpiRequest
from hvdlite.job.bootstrap.offer import StoreAccess, open_store, through
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

# After shutdown(), init() returns to the store where the ranks have met before.
_known: dict[tuple[RendezvousMethod, str], StoreAccess] = {}


def meet(me: Identity, interfaces: str, seconds: float, request: MpiRequest) -> StoreAccess | None:
    """Returns the store where this rank meets the others, within the time limit. Returns None if it
    is alone; no socket was opened then.

    Raises HorovodInternalError or TimeoutError if the ranks could not meet, and ValueError or
    RuntimeError if they never can. Ctrl-C ends every wait.
    """
    if me.size == 1 or me.rendezvous_method is None:
        return None
    key = (me.rendezvous_method, me.namespace)
    access = _known.get(key) if request.communicator is None else mpi.recall(request.communicator)
    if access is None:
        names = [name.strip() for name in interfaces.split(",") if name.strip()]
        try:
            access = _meet(me, me.rendezvous_method, names, min(seconds, _LONGEST_SECONDS), request)
        except OSError as error:
            kind = TimeoutError if isinstance(error, TimeoutError) else HorovodInternalError
            raise kind(
                f"rank {me.rank} of {me.size}, started by {me.launcher}, could not meet the other "
                f"ranks: {error} (HVDLITE_START_TIMEOUT sets how long to wait)"
            ) from error
        if request.communicator is None:
            _known[key] = access
        else:
            mpi.remember(request.communicator, access)
    return access


def _meet(
    me: Identity,
    method: RendezvousMethod,
    interfaces: list[str],
    seconds: float,
    request: MpiRequest,
) -> StoreAccess:
    if isinstance(method, AtStore):
        return _at_store(me, method, seconds)
    if isinstance(method, AtPorts):
        return by_ports.meet(me, method, seconds)
    if isinstance(method, OnThisHost):
        channel = partial(by_socket.say, method.job + me.namespace, me.secret is not None)
    elif isinstance(method, OverHttp):
        channel = partial(channels.over_http, method.address, me.namespace)
    elif isinstance(method, OverTorchStore):
        channel = partial(channels.over_torch, method.address, method.job + me.namespace)
    else:
        channel = partial(mpi.say, me, request)
    return through(channel, me, interfaces, time.monotonic() + seconds)


def _at_store(me: Identity, method: AtStore, seconds: float) -> StoreAccess:
    assert me.secret is not None
    if me.rank == 0 and method.may_open:
        return _open_unless_there(method, me.secret)
    if len(method.addresses) == 1:  # the core's client tries again, and says what it saw
        return StoreAccess(method.addresses[0], me.secret)
    address, client = addresses.reach(method.addresses, me.secret, seconds)
    client.close()
    return StoreAccess(address, me.secret)


def _open_unless_there(method: AtStore, secret: bytes) -> StoreAccess:
    for address in method.addresses:
        try:
            StoreClient(address, secret, _LOOK_SECONDS).close()
            return StoreAccess(address, secret)
        except HandshakeError:
            raise
        except OSError:
            continue
    for host, port in method.addresses:
        if addresses.is_of_this_machine(host):
            return StoreAccess(
                ("127.0.0.1", open_store(secret, on_one_host=False, port=port)), secret
            )
    tried = ", ".join(f"{host} port {port}" for host, port in method.addresses)
    raise ConnectionError(
        f"no store answers at {tried}, and rank 0 cannot open one there, because its host does "
        "not have that address: give an address of rank 0's host"
    )
