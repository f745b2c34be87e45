"""Bytes of any size in the job's store, whose values have a limit: `hvdlite.run` and its ranks
exchange them.

A blob is `key/0`, `key/1`, ... and then `key` with their number. A reader that finds `key` finds
all of the blob.
"""

from __future__ import annotations

from hvdlite.rendezvous import StoreClient

PIECE_BYTES = 32 << 20


def send(client: StoreClient, key: str, data: bytes) -> None:
    """Puts a blob into the store. A key can be used once."""
    view = memoryview(data)
    starts = range(0, len(view), PIECE_BYTES)
    for number, start in enumerate(starts):
        client.set(f"{key}/{number}", bytes(view[start : start + PIECE_BYTES]))
    client.set(key, b"%d" % len(starts))


def receive(client: StoreClient, key: str, timeout: float) -> bytes:
    """Returns the blob, which stays in the store. Raises TimeoutError if it does not come in
    time."""
    count = int(client.get(key, timeout))
    return b"".join(client.get(f"{key}/{number}", timeout) for number in range(count))
