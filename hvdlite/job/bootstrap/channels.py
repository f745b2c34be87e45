"""Channels of other launchers by which rank 0 says something, and all ranks hear it.

by_socket and mpi have one each, too. The servers here do not authenticate their clients, so rank 0
takes its offer back when all ranks have come.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from hvdlite.job.bootstrap.offer import MAX_BYTES, Offer, when_all_are_here
from hvdlite.rendezvous.addresses import Address

_REQUEST_SECONDS = 3.0
_HTTP_PAUSE = 0.1
_TORCH_PAUSE = 0.02
_LAST_SECONDS = 5.0


def over_http(
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


def over_torch(address: Address, job: str, text: bytes | None, seconds: float) -> bytes:
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
