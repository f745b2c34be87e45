"""How the ranks of each launcher find their store."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial
from typing import Any

from hvdlite.exceptions import HorovodInternalError
from hvdlite.job.bootstrap import by_ports, by_socket, mpi
from hvdlite.job.bootstrap.mpi import MpiRequest
from hvdlite.job.bootstrap.offer import (
    MAX_BYTES,
    Offer,
    StoreAccess,
    open_store,
    through,
    when_all_are_here,
)
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
from hvdlite.rendezvous.addresses import Address

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
        channel = partial(_over_http, method.address, me.namespace)
    elif isinstance(method, OverTorchStore):
        channel = partial(_over_torch, method.address, method.job + me.namespace)
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


# ---- Channels of other launchers. Their servers do not authenticate clients, so rank 0 takes its
# offer back when all ranks have come.

_REQUEST_SECONDS = 3.0
_HTTP_PAUSE = 0.1
_TORCH_PAUSE = 0.02
_LAST_SECONDS = 5.0


def _over_http(
    address: tuple[str, int], namespace: str, text: bytes | None, seconds: float
) -> bytes:
    """A channel: the rendezvous server of a horovodrun, which has GET and PUT of /scope/key. It is
    asked again and again, because it answers at once even if there is nothing yet. Rank 0 replaces
    the offer once all ranks have come."""
    import http.client  # slow to import, and rarely needed

    deadline = time.monotonic() + seconds
    problem = "rank 0 has published nothing there yet"
    while True:
        try:
            status, body = _request(address, _key(namespace), text)
        except (OSError, http.client.HTTPException) as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            if status == 200:
                if text is None:
                    return body
                when_all_are_here(lambda: _forget_at_http(address, namespace))
                return text
            if status != 404:
                problem = f"it answered {status}"
        if time.monotonic() + _HTTP_PAUSE > deadline:
            raise TimeoutError(
                f"no word from rank 0 within {seconds:.0f} s through horovodrun's rendezvous "
                f"server at {address[0]} port {address[1]}: {problem}"
            )
        time.sleep(_HTTP_PAUSE)


def _forget_at_http(address: tuple[str, int], namespace: str) -> None:
    """The server can replace a value, but not delete it."""
    import http.client

    try:
        _request(
            address,
            _key(namespace),
            Offer(problem="all ranks of the job have met already").encode(),
        )
    except http.client.HTTPException as error:
        raise ConnectionError(
            f"horovodrun's rendezvous server: {type(error).__name__}: {error}"
        ) from error


def _key(namespace: str) -> str:
    return f"/hvdlite{namespace}/store"


def _request(address: tuple[str, int], key: str, text: bytes | None) -> tuple[int, bytes]:
    import http.client  # urllib would use a proxy

    connection = http.client.HTTPConnection(*address, timeout=_REQUEST_SECONDS)
    try:
        connection.request("GET" if text is None else "PUT", key, body=text)
        response = connection.getresponse()
        return response.status, response.read(MAX_BYTES)
    finally:
        connection.close()


def _over_torch(address: Address, job: str, text: bytes | None, seconds: float) -> bytes:
    """A channel: the TCPStore that torchrun's agent serves at MASTER_PORT. Keys of an attempt are
    its own, because the agent's store lives longer. The key stays only until all ranks have
    come."""
    try:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]
    except ImportError as error:
        raise ConnectionError(
            f"meeting under torchrun needs torch in this Python: {error}"
        ) from None
    deadline = time.monotonic() + seconds
    host, port = address
    where = f"the store of torchrun's agent at {host} port {port}"
    key = f"hvdlite/{job}/store"
    try:
        store = TCPStore(
            host, port, is_master=False, timeout=timedelta(seconds=seconds), wait_for_workers=False
        )
        if text is not None:
            store.set(key, text.decode())
            store.set_timeout(timedelta(seconds=_LAST_SECONDS))
            when_all_are_here(lambda: _forget_at_torch(store, key))
            return text
        # store.get() would delay Ctrl-C until it returns.
        while not store.check([key]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no word from rank 0 within {seconds:.0f} s through {where}")
            time.sleep(_TORCH_PAUSE)
        return bytes(store.get(key))
    except RuntimeError as error:  # torch's own
        raise ConnectionError(f"lost {where}: {error}") from error


def _forget_at_torch(store: Any, key: str) -> None:
    store.delete_key(key)
