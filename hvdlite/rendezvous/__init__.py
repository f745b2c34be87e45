"""How the processes of a job meet: a store of small values by key, served by the launcher.

    server = StoreServer(secret).start()        # in the launcher; a daemon thread
    client = StoreClient(server.address, secret)
    client.set("greeting", b"hello")
    client.get("greeting", timeout=5)           # b"hello"

``launch`` and ``job`` use it. It needs only the standard library, and imports neither the native
core nor a framework. The ranks' own client is ``csrc/rendezvous/tcp_store``; both follow
``docs/how-it-works/wire.md``.

    server     START HERE: serves the keys of one job to clients that know its secret
    serving    the loop of the server's thread, and its connections
    table      the keys, and the requests that wait for them
    attempts   which ranks join which rendezvous, and what the others are told when one is lost
    protocol   the handshake, frames and requests as bytes
    client     asks the server, in Python
    addresses  the addresses of this machine, and those that lead to another one
    quota      limits the lines of a log about events that may come without end
    documents  what members and the driver of an elastic job write
    fields     JSON whose fields are checked one by one, and seals
    last_step  which step is the last that an elastic job has, and which member sends it
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvdlite.rendezvous.client import StoreClient as StoreClient
    from hvdlite.rendezvous.protocol import HandshakeError as HandshakeError
    from hvdlite.rendezvous.protocol import ProtocolError as ProtocolError
    from hvdlite.rendezvous.protocol import new_secret as new_secret
    from hvdlite.rendezvous.server import StoreServer as StoreServer

# Looked up lazily: most ranks serve no store, and one that is alone asks none.
_HOMES = {
    "HandshakeError": "protocol", "ProtocolError": "protocol", "StoreClient": "client",
    "StoreServer": "server", "new_secret": "protocol",
}  # fmt: skip

__all__ = ["HandshakeError", "ProtocolError", "StoreClient", "StoreServer", "new_secret"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
