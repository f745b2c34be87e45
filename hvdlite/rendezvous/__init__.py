"""How the processes of a job meet: a store of small values by key, served by the launcher.

    server = StoreServer(secret).start()        # in the launcher; a daemon thread
    client = StoreClient(server.address, secret)
    client.set("greeting", b"hello")
    client.get("greeting", timeout=5)           # b"hello"

``launch``, ``bootstrap`` and ``job`` use it. It needs only the standard library, and imports
neither the native core nor a framework. The ranks' own client is ``csrc/rendezvous/tcp_store``;
both follow ``docs/how-it-works/wire.md``.
"""

from hvdlite.rendezvous.client import StoreClient
from hvdlite.rendezvous.protocol import HandshakeError, ProtocolError, new_secret
from hvdlite.rendezvous.server import StoreServer

__all__ = ["HandshakeError", "ProtocolError", "StoreClient", "StoreServer", "new_secret"]
