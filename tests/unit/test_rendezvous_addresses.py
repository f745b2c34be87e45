"""Which addresses a machine offers, and how another finds the one that leads to it."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest
from machine import within

from hvdlite.rendezvous import StoreClient, StoreServer, addresses, new_secret
from hvdlite.rendezvous.addresses import is_of_this_machine, of_this_machine, reach


def test_own_addresses_can_be_bound_and_are_not_the_loopback() -> None:
    for address in of_this_machine():
        assert not address.startswith("127.") and address != "::1"
        assert is_of_this_machine(address)


def test_interfaces_can_be_chosen() -> None:
    assert of_this_machine(["lo"])[0] == "127.0.0.1"
    with pytest.raises(ValueError, match=r"no interface 'nope0' with an address on .*, only .*lo"):
        of_this_machine(["nope0"])


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.0.1.1", socket.gethostname()])
def test_this_machine_knows_its_names(name: str) -> None:
    assert is_of_this_machine(name)


@pytest.mark.parametrize("name", ["192.0.2.1", "no-such-host.invalid"])
def test_other_machines_are_others(name: str) -> None:
    assert not is_of_this_machine(name)


def test_the_address_behind_which_the_secret_is_known_is_found_among_others() -> None:
    secret = new_secret()
    with (
        StoreServer(new_secret()) as stranger,
        StoreServer(secret) as server,
        socket.socket() as closed,
    ):
        closed.bind(("127.0.0.1", 0))  # nobody listens
        offered = [stranger.address, closed.getsockname(), ("192.0.2.1", 9), server.address]
        began = time.monotonic()
        address, client = reach(offered, secret, within(60))
        with client:
            assert address == server.address and time.monotonic() - began < within(20)
            client.set("here", b"1")


def test_a_store_that_comes_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = new_secret()
    place = socket.socket()  # holds the port, so that nobody else gets it; there it does not listen
    place.bind(("127.0.0.1", 0))
    port = place.getsockname()[1]
    servers: list[StoreServer] = []

    class Client(StoreClient):
        def __init__(self, address: tuple[str, int], secret: bytes, timeout: float) -> None:
            try:
                super().__init__(address, secret, timeout)
            except ConnectionError:
                if not servers:
                    place.close()
                    servers.append(StoreServer(secret, port=port).start())
                raise

    monkeypatch.setattr("hvdlite.rendezvous.client.StoreClient", Client)
    try:
        _, client = reach([("127.0.0.1", port)], secret, within(20))
        client.close()
    finally:
        servers[0].close()


def test_when_nobody_answers_the_error_tells_what_each_address_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed: set[tuple[str, int]] = set()

    class Client(StoreClient):
        def __init__(self, address: tuple[str, int], secret: bytes, timeout: float) -> None:
            try:
                super().__init__(address, secret, timeout)
            except ConnectionError:
                failed.add(address)
                raise

    # The time is over when both have said something.
    now = SimpleNamespace(monotonic=lambda: 1000.0 if len(failed) == 2 else 0.0)
    monkeypatch.setattr("hvdlite.rendezvous.client.StoreClient", Client)
    monkeypatch.setattr(addresses, "time", now)
    with StoreServer(new_secret()) as stranger, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(ConnectionError) as error:
            reach([stranger.address, ("127.0.0.1", port)], new_secret(), 60)
    text = str(error.value)
    assert "no answer within 60 s" in text
    assert f"127.0.0.1 port {port}: [Errno 111] Connection refused" in text
    assert f"127.0.0.1 port {stranger.address[1]}: handshake" in text
