"""A store's server, and a client that knows its secret."""

from __future__ import annotations

import pytest
from store import LIMIT, SECRET

from hvdlite.rendezvous import StoreClient, StoreServer


@pytest.fixture
def server():
    with StoreServer(SECRET) as running:
        yield running


@pytest.fixture
def client(server):
    with StoreClient(server.address, SECRET, LIMIT) as connected:
        yield connected
