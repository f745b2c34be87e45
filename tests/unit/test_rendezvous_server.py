"""The store server and its friends: values, waiting, many clients at once."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from store import (
    LIMIT,
    SECRET,
    assert_closed,
    assert_serves,
    dial,
    frame,
    read_reply,
    receive,
    request,
    shake_hands,
    warnings_of,
)
from waiting import wait_until

from hvdlite.rendezvous import StoreClient, StoreServer, new_secret, protocol


def test_bytes_come_back_as_they_were_set(client):
    for value in (b"", b"x", bytes(range(256)) * 1000):
        client.set("key", value)
        assert client.get("key", LIMIT) == value


def test_a_value_of_sixty_megabytes_fits_and_one_of_sixty_four_is_refused_here(client):
    value = bytes(60 << 20)
    client.set("large", value)
    assert client.get("large", LIMIT) == value
    with pytest.raises(ValueError, match="64 MiB"):
        client.set("large", bytes(64 << 20))
    assert client.add("n", 1) == 1


def test_get_waits_for_another_client_and_delays_nobody(server, client):
    with StoreClient(server.address, SECRET, LIMIT) as waiting:
        got = []
        thread = threading.Thread(
            target=lambda: got.append(waiting.get("late", LIMIT)), daemon=True
        )
        thread.start()
        start = time.monotonic()
        for _ in range(100):
            client.add("n", 1)
        assert time.monotonic() - start < LIMIT / 2
        client.set("late", b"here")
        thread.join(LIMIT)
    assert got == [b"here"]


def test_get_times_out_names_the_key_and_the_connection_goes_on(client):
    start = time.monotonic()
    with pytest.raises(TimeoutError, match="no rank set 'never' in time"):
        client.get("never", 0.05)
    assert 0.04 < time.monotonic() - start < LIMIT
    with pytest.raises(TimeoutError):
        client.get("never", 0)
    client.set("never", b"now")
    assert client.get("never", 0) == b"now"


def test_collect_brings_all_values_in_order(client):
    for i in (2, 0, 1):
        client.set(f"m/{i}", b"r%d" % i)
    assert client.collect("m", 3, LIMIT) == [b"r0", b"r1", b"r2"]
    assert client.collect("m", 0, LIMIT) == []


def test_a_timed_out_collect_names_who_is_missing(client):
    client.set("m/1", b"")
    with pytest.raises(TimeoutError, match="in time: 0, 2, 3 "):
        client.collect("m", 4, 0.02)
    with pytest.raises(TimeoutError, match="63, 64 and 935 more"):
        client.collect("m", 1000, 0)


def test_collect_wants_keys_that_exist_at_the_same_time(server, client):
    with StoreClient(server.address, SECRET, LIMIT) as waiting:
        got = []
        thread = threading.Thread(
            target=lambda: got.append(waiting.collect("m", 2, LIMIT)), daemon=True
        )
        client.set("m/0", b"old")
        thread.start()
        wait_until(lambda: list(server._loop.table._waiters) == ["m/1"])
        client.delete("m")
        client.set("m/1", b"b")
        assert list(server._loop.table._waiters) == ["m/0"]
        client.set("m/0", b"new")
        thread.join(LIMIT)
    assert got == [[b"new", b"b"]]


def test_add_counts_from_zero_and_refuses_what_is_no_counter(client):
    assert client.add("n", 5) == 5
    assert client.add("n", -7) == -2
    assert client.get("n", 0) == struct.pack("<q", -2)
    client.set("text", b"abc")
    with pytest.raises(ValueError, match="not a counter"):
        client.add("text", 1)
    client.add("max", 2**63 - 1)
    with pytest.raises(ValueError, match="overflow"):
        client.add("max", 1)


def test_delete_removes_the_key_and_all_below_it_only(client):
    for key in ("a", "a/1", "a/b/c", "ab", "a.", "a0"):
        client.set(key, b"x")
    client.delete("a")
    client.delete("a")
    for key in ("a", "a/1", "a/b/c"):
        with pytest.raises(TimeoutError):
            client.get(key, 0)
    for key in ("ab", "a.", "a0"):
        assert client.get(key, 0) == b"x"


def test_sixty_four_clients_at_once_all_meet(server):
    n = 64
    results = [None] * n
    errors = []

    def rank(i):
        try:
            with StoreClient(server.address, SECRET, LIMIT) as me:
                me.set(f"m/{i}", b"r%d" % i)
                results[i] = me.collect("m", n, LIMIT)
                me.add("arrived", 1)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=rank, args=(i,), daemon=True) for i in range(n)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * LIMIT)
    assert not errors
    assert time.monotonic() - start < 3 * LIMIT
    assert results == [[b"r%d" % i for i in range(n)]] * n
    with StoreClient(server.address, SECRET, LIMIT) as me:
        assert me.add("arrived", 0) == n


def test_requests_sent_ahead_are_answered_in_order(server):
    with dial(server) as sock:
        shake_hands(sock)
        get = request(protocol.Operation.GET, "k", 5000)
        ahead = b"".join(
            frame(i, request(protocol.Operation.ADD, "n", 0, struct.pack("<q", 1)))
            for i in range(1, 50)
        )
        sock.sendall(frame(0, get) + ahead)
        with StoreClient(server.address, SECRET, LIMIT) as other:
            for _ in range(20):  # turns in which the server could have read on
                other.set("other", b"")
            other.set("k", b"v")
        assert read_reply(sock, 0) == b"\0v"
        for i in range(1, 50):
            assert read_reply(sock, i) == b"\0" + struct.pack("<q", i)


def test_a_client_that_closes_while_it_waits_is_forgotten(server, caplog):
    with dial(server) as sock:
        shake_hands(sock)
        sock.sendall(frame(0, request(protocol.Operation.GET, "k", 0xFFFFFFFF)))
    assert_serves(server)
    with StoreClient(server.address, SECRET, LIMIT) as other:
        other.set("k", b"v")
    assert warnings_of(caplog) == []


def test_a_call_that_another_thread_ends_closes_the_socket_itself(server, monkeypatch):
    """Its number may be another file's as soon as it is closed, and the call would read that."""
    client = StoreClient(server.address, SECRET, LIMIT)
    exchange, may_end, ended = client._exchange, threading.Event(), []

    def long(payload, deadline):
        reply = exchange(payload, deadline)
        in_use.set()
        assert may_end.wait(LIMIT)
        return reply

    in_use = threading.Event()
    monkeypatch.setattr(client, "_exchange", long)
    thread = threading.Thread(target=lambda: ended.append(client.set("k", b"v")))
    thread.start()
    assert in_use.wait(LIMIT)
    client.close()
    assert client.socket.fileno() >= 0
    may_end.set()
    thread.join(LIMIT)
    assert ended == [None] and client.socket.fileno() == -1
    with pytest.raises(ConnectionError, match="closed here"):
        client.get("k")


def test_close_ends_waiting_clients_at_once():
    server = StoreServer(SECRET).start()
    client = StoreClient(server.address, SECRET, LIMIT)
    errors = []

    def wait():
        try:
            client.get("never")
        except ConnectionError as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    wait_until(lambda: "never" in server._loop.table._waiters)
    server.close()
    server.close()
    thread.join(LIMIT)
    assert "closed the connection" in errors[0] and "launcher" in errors[0]
    with pytest.raises(ConnectionError, match="lost the job's store"):
        client.set("k", b"")
    with pytest.raises(ConnectionError, match="is the launcher still running"):
        StoreClient(server.address, SECRET, LIMIT)


def test_who_leaves_while_it_waits_is_waited_with_no_longer(server, client):
    table = server._loop.table
    sock = dial(server)
    shake_hands(sock)
    sock.sendall(frame(0, request(protocol.Operation.GET, "late", protocol.WAIT_FOREVER)))
    _until(lambda: "late" in table._waiters)
    sock.close()
    _until(lambda: len(server._loop._connections) == 1)
    assert table._waiters == {}
    client.set("late", b"x")
    assert client.get("late", LIMIT) == b"x"


def _until(happened):
    end = time.monotonic() + LIMIT
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.001)  # poll


def test_a_client_whose_machine_vanishes_is_noticed_by_the_system(server, client):
    client.set("k", b"")
    (connection,) = server._loop._connections
    assert connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_a_server_listens_on_the_address_given_only():
    with StoreServer(SECRET) as server:
        assert server.address[0] == "127.0.0.1"
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.2", server.address[1]), LIMIT)
        with pytest.raises(OSError, match="cannot listen on 127.0.0.1 port"):
            StoreServer(SECRET, port=server.address[1])
    with pytest.raises(ValueError, match="address to listen on"):
        StoreServer(SECRET, host="")


def test_a_server_speaks_ipv6():
    try:
        server = StoreServer(SECRET, host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server, StoreClient(server.address, SECRET, LIMIT) as client:
        assert client.add("n", 1) == 1


def _hello(server, purpose):
    sock = dial(server)
    nonce = os.urandom(32)
    sock.sendall(protocol.hello(nonce, purpose))
    return sock, nonce


def test_a_connection_that_wants_to_watch_is_handed_over_after_the_handshake(server, caplog):
    watch = protocol.PURPOSE_WATCH
    sock, _ = _hello(server, watch)  # before the process that serves wants any
    assert_closed(sock)
    assert warnings_of(caplog) == []
    guests = server.guests()
    stranger, _ = _hello(server, watch)
    receive(stranger, protocol.ANSWER_BYTES)
    stranger.sendall(bytes(protocol.PROOF_BYTES))
    assert_closed(stranger)
    friend, nonce = _hello(server, watch)
    answer = receive(friend, protocol.ANSWER_BYTES)
    friend.sendall(protocol.answer_server(SECRET, nonce, answer, watch) + b"to the guest")
    (taken,) = wait_until(guests.take)
    taken.settimeout(LIMIT)
    assert receive(taken, 12) == b"to the guest"
    taken.sendall(b"back")
    assert receive(friend, 4) == b"back"
    taken.close()
    assert_serves(server)


def test_secrets_are_random_and_of_one_length():
    assert len(new_secret()) == 32 and new_secret() != new_secret()
    for bad in (b"", b"short", "x" * 32, None):
        with pytest.raises(ValueError, match="32 bytes"):
            StoreServer(bad)


def test_the_package_imports_neither_the_core_nor_a_framework():
    code = """
import sys, types
package = types.ModuleType("hvdlite")  # without what hvdlite/__init__.py brings
package.__path__ = [sys.argv[1]]
sys.modules["hvdlite"] = package
import hvdlite.rendezvous
no = ("torch", "tensorflow", "jax", "numpy", "pickle", "cloudpickle")
bad = [name for name in sys.modules if name.split(".")[0] in no or name == "hvdlite._core"]
assert not bad, bad
"""
    folder = os.path.dirname(os.path.dirname(protocol.__file__))
    subprocess.run([sys.executable, "-S", "-c", code, folder], check=True, timeout=6 * LIMIT)
