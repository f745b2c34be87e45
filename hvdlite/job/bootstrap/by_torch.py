"""The TCPStore that torchrun's agent serves at MASTER_PORT."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from hvdlite.job.bootstrap import arrivals
from hvdlite.rendezvous.addresses import Address

_PAUSE = 0.02
_LAST_SECONDS = 5.0


def say(address: Address, job: str, text: bytes | None, seconds: float) -> bytes:
    """A channel. Keys of an attempt are its own, because the agent's store lives longer. The store
    does not authenticate its clients, so the key stays only until all ranks have come."""
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
            arrivals.when_all_are_here(lambda: _forget(store, key))
            return text
        # store.get() would delay Ctrl-C until it returns.
        while not store.check([key]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no word from rank 0 within {seconds:.0f} s through {where}")
            time.sleep(_PAUSE)
        return bytes(store.get(key))
    except RuntimeError as error:  # torch's own
        raise ConnectionError(f"lost {where}: {error}") from error


def _forget(store: Any, key: str) -> None:
    store.delete_key(key)
