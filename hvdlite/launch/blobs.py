"""Bytes of any size in the job's store, whose values have a limit: what `hvdlite.run` and its ranks hand one another.

A parcel is `key/0`, `key/1`, ... and, set last, `key` with their number: a reader that finds that finds all of it.
"""

from __future__ import annotations

from hvdlite.rendezvous import StoreClient

PIECE_BYTES = 32 << 20


def send(client: StoreClient, key: str, data: bytes) -> None:
    """Put a parcel into the store; a key takes one."""
    view = memoryview(data)
    starts = range(0, len(view), PIECE_BYTES)
    for number, start in enumerate(starts):
        client.set(f"{key}/{number}", bytes(view[start : start + PIECE_BYTES]))
    client.set(key, b"%d" % len(starts))


def receive(client: StoreClient, key: str, timeout: float) -> bytes:
    """The parcel, which stays where it is. TimeoutError when it does not come in time."""
    count = int(client.get(key, timeout))
    return b"".join(client.get(f"{key}/{number}", timeout) for number in range(count))
