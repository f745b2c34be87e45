"""The rendezvous server of a horovodrun: GET and PUT of /scope/key."""

from __future__ import annotations

import time

from hvdlite.job.bootstrap import arrivals
from hvdlite.job.bootstrap.offer import MAX_BYTES, Offer

_REQUEST_SECONDS = 3.0
_PAUSE = 0.1


def say(address: tuple[str, int], apart: str, text: bytes | None, seconds: float) -> bytes:
    """A channel. It asks the server again and again, because the server answers at once even if
    there is nothing yet. The server does not authenticate its clients, so rank 0 replaces the offer
    once all ranks have come."""
    import http.client  # slow to import, and rarely needed

    deadline = time.monotonic() + seconds
    problem = "rank 0 has published nothing there yet"
    while True:
        try:
            status, body = _request(address, _key(apart), text)
        except (OSError, http.client.HTTPException) as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            if status == 200:
                if text is None:
                    return body
                arrivals.when_all_are_here(lambda: _forget(address, apart))
                return text
            if status != 404:
                problem = f"it answered {status}"
        if time.monotonic() + _PAUSE > deadline:
            raise TimeoutError(
                f"no word from rank 0 within {seconds:.0f} s through horovodrun's rendezvous "
                f"server at {address[0]} port {address[1]}: {problem}"
            )
        time.sleep(_PAUSE)


def _forget(address: tuple[str, int], apart: str) -> None:
    """The server can replace a value, but not delete it."""
    import http.client

    try:
        _request(
            address, _key(apart), Offer(problem="all ranks of the job have met already").encode()
        )
    except http.client.HTTPException as error:
        raise ConnectionError(
            f"horovodrun's rendezvous server: {type(error).__name__}: {error}"
        ) from error


def _key(apart: str) -> str:
    return f"/hvdlite{apart}/store"


def _request(address: tuple[str, int], key: str, text: bytes | None) -> tuple[int, bytes]:
    import http.client  # urllib would use a proxy

    connection = http.client.HTTPConnection(*address, timeout=_REQUEST_SECONDS)
    try:
        connection.request("GET" if text is None else "PUT", key, body=text)
        response = connection.getresponse()
        return response.status, response.read(MAX_BYTES)
    finally:
        connection.close()
