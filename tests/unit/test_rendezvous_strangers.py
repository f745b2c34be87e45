"""The store server against strangers: who does not know the secret, talks nonsense, dawdles or
floods it."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import subprocess
import sys
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
    resident,
    shake_hands,
    wait_for_warning,
    warnings_of,
)
from waiting import wait_until

from hvdlite.rendezvous import HandshakeError, StoreClient, new_secret, protocol


def test_a_client_with_a_wrong_secret_is_told_and_the_server_logs_one_line(server, caplog):
    with pytest.raises(HandshakeError, match="does not know this job's secret"):
        StoreClient(server.address, new_secret(), LIMIT)
    wait_for_warning(caplog, "left during the handshake")
    assert len(warnings_of(caplog)) == 1
    assert SECRET.hex() not in caplog.text
    assert_serves(server)


def test_a_wrong_proof_closes_the_connection_before_anything_is_parsed(server, caplog):
    with dial(server) as sock:
        sock.sendall(protocol.hello(os.urandom(32)))
        receive(sock, protocol.ANSWER_BYTES)
        sock.sendall(bytes(32) + frame(0, request(protocol.Operation.SET, "evil", 0, b"x")))
        assert_closed(sock)
    assert len(wait_for_warning(caplog, "does not know this job's secret")) == 1
    with StoreClient(server.address, SECRET, LIMIT) as friend, pytest.raises(TimeoutError):
        friend.get("evil", 0)


def test_the_servers_own_proof_sent_back_is_refused(server):
    with dial(server) as sock:
        sock.sendall(protocol.hello(os.urandom(32)))
        sock.sendall(receive(sock, protocol.ANSWER_BYTES)[-32:])
        assert_closed(sock)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0",
        random.Random(1).randbytes(4096),
        b"hvdlite2" + bytes(33),
        b"\x80\x04\x95" * 100,
    ],
)
def test_garbage_is_shown_out_at_once(server, caplog, monkeypatch, garbage):
    monkeypatch.setattr(protocol, "HANDSHAKE_SECONDS", 10 * LIMIT)  # which is not what ends it
    with dial(server) as sock:
        sock.sendall(garbage)
        assert_closed(sock)
    wait_for_warning(caplog, "does not speak hvdlite's protocol")
    assert len(warnings_of(caplog)) == 1
    assert_serves(server)


def test_a_connection_for_links_is_refused(server, caplog):
    with dial(server) as sock:
        sock.sendall(protocol.hello(os.urandom(32), protocol.PURPOSE_LINK))
        assert_closed(sock)
    wait_for_warning(caplog, "purpose 1")


def test_a_recorded_handshake_is_worthless(server, caplog):
    nonce = os.urandom(32)
    with dial(server) as sock:
        sock.sendall(protocol.hello(nonce))
        proof = protocol.answer_server(SECRET, nonce, receive(sock, protocol.ANSWER_BYTES))
        sock.sendall(
            proof + frame(0, request(protocol.Operation.ADD, "n", 0, struct.pack("<q", 1)))
        )
        assert read_reply(sock, 0) == b"\0" + struct.pack("<q", 1)
    with dial(server) as sock:
        sock.sendall(protocol.hello(nonce) + proof)
        sock.sendall(frame(0, request(protocol.Operation.ADD, "n", 0, struct.pack("<q", 1))))
        assert len(receive(sock, protocol.ANSWER_BYTES)) == protocol.ANSWER_BYTES
        assert_closed(sock)
    wait_for_warning(caplog, "does not know this job's secret")
    with StoreClient(server.address, SECRET, LIMIT) as friend:
        assert friend.add("n", 0) == 1


def test_a_huge_length_closes_the_connection_without_memory(server, caplog):
    before = resident()
    for length in (protocol.MAX_PAYLOAD + 1, 1 << 40, (1 << 64) - 1, 0):
        with dial(server) as sock:
            shake_hands(sock)
            sock.sendall(struct.pack("<IQ", 0, length))
            assert_closed(sock)
    wait_for_warning(caplog, "an empty frame came")
    assert sum("was announced" in w for w in warnings_of(caplog)) == 3
    assert resident() - before < 20 << 20
    assert_serves(server)


def test_a_large_length_without_bytes_takes_no_memory(server):
    before = resident()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            sock = stack.enter_context(dial(server))
            shake_hands(sock)
            sock.sendall(struct.pack("<IQ", 0, protocol.MAX_PAYLOAD) + b"x")
        assert_serves(server)
        assert resident() - before < 20 << 20


@pytest.mark.parametrize("sequence", [1, 0xFFFFFFFF])
def test_a_break_in_the_sequence_closes_the_connection(server, caplog, sequence):
    with dial(server) as sock:
        shake_hands(sock)
        sock.sendall(frame(sequence, request(protocol.Operation.SET, "evil", 0, b"x")))
        assert_closed(sock)
    wait_for_warning(caplog, f"frame {sequence} came instead of frame 0")


def test_a_repeated_frame_closes_the_connection(server):
    with dial(server) as sock:
        shake_hands(sock)
        add = frame(0, request(protocol.Operation.ADD, "n", 0, struct.pack("<q", 1)))
        sock.sendall(add + add)
        assert read_reply(sock, 0) == b"\0" + struct.pack("<q", 1)
        assert_closed(sock)
    with StoreClient(server.address, SECRET, LIMIT) as friend:
        assert friend.add("n", 0) == 1


@pytest.mark.parametrize(
    "payload, sentence",
    [
        (b"\1", b"cut off"),
        (b"\1\1\0\0\0k", b"cut off"),
        (b"\1\xff\xff\xff\xffk\0\0\0\0", b"1 to 4096"),
        (b"\1\0\0\0\0\0\0\0\0", b"1 to 4096"),
        (b"\1\1\0\0\0\xff\0\0\0\0", b"UTF-8"),
        (b"\x09\1\0\0\0k\0\0\0\0", b"operation 9"),
        (b"\3\1\0\0\0k\0\0\0\0\1", b"4 bytes"),
        (b"\3\1\0\0\0k\0\0\0\0\xff\xff\xff\xff", b"cannot collect"),
        (b"\4\1\0\0\0k\0\0\0\0\1", b"8 bytes"),
    ],
)
def test_a_bad_request_is_answered_and_the_connection_goes_on(server, payload, sentence):
    with dial(server) as sock:
        shake_hands(sock)
        sock.sendall(frame(0, payload) + frame(1, request(protocol.Operation.SET, "k", 0, b"v")))
        reply = read_reply(sock, 0)
        assert reply[:1] == b"\2" and sentence in reply
        assert read_reply(sock, 1) == b"\0"


def test_a_collect_that_would_not_fit_into_a_frame_is_refused(client):
    client.set("m/0", bytes(40 << 20))
    client.set("m/1", bytes(40 << 20))
    with pytest.raises(ValueError, match="64 MiB"):
        client.collect("m", 2, LIMIT)
    assert client.add("n", 1) == 1


def test_one_who_dawdles_is_shown_out_and_delays_nobody(server, caplog, monkeypatch):
    monkeypatch.setattr(protocol, "HANDSHAKE_SECONDS", 2 * LIMIT)
    came = time.monotonic()
    with dial(server) as silent, dial(server) as loris:
        for byte in protocol.hello(os.urandom(32))[:3]:
            loris.sendall(bytes([byte]))
            assert_serves(server)
        strangers = list(server._loop._strangers)
        assert len(strangers) == 2 and all(
            stranger.deadline >= came + 2 * LIMIT for stranger in strangers
        )
        over = time.monotonic() + 0.1
        for stranger in strangers:
            stranger.deadline = over
        loris.sendall(b"l")  # nor does this give it more time
        assert_closed(loris)
        assert_closed(silent)
        assert time.monotonic() >= over
    wait_until(lambda: len(warnings_of(caplog)) == 2)
    assert all(
        f"did not finish the handshake within {2 * LIMIT:g} s" in text
        for text in warnings_of(caplog)
    )


def test_a_half_open_client_that_is_in_the_middle_of_a_request_delays_nobody(server, caplog):
    with dial(server) as sock:
        shake_hands(sock)
        sock.sendall(frame(0, request(protocol.Operation.SET, "k", 0, b"value"))[:-2])
        assert_serves(server)
        sock.shutdown(socket.SHUT_WR)
        assert_closed(sock)
    wait_for_warning(caplog, "in the middle of a request")


def test_a_client_that_does_not_read_its_replies_delays_nobody_and_hoards_nothing(server, client):
    client.set("large", bytes(8 << 20))
    before = resident()
    with dial(server) as sock:
        shake_hands(sock)
        sock.settimeout(0.5)
        try:
            for i in range(20000):
                sock.sendall(frame(i, request(protocol.Operation.GET, "large", 0)))
        except TimeoutError:
            pass
        assert_serves(server)
        assert resident() - before < 40 << 20


def test_a_flood_of_strangers_pushes_out_the_oldest_and_friends_get_in(server, caplog, monkeypatch):
    monkeypatch.setattr("hvdlite.rendezvous.serving._MAX_STRANGERS", 20)
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(dial(server)) for _ in range(60)]
        assert_serves(server)
        assert_closed(strangers[0])
    wait_for_warning(caplog, "more than 20 handshakes are under way")


def test_a_flood_of_strangers_costs_the_log_a_few_lines_and_is_counted(server, caplog):
    for _ in range(300):
        with dial(server) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert_closed(sock)
    assert_serves(server)
    server.close()
    first, count = warnings_of(caplog)[:-1], warnings_of(caplog)[-1]
    assert len(first) == 5 and all("does not speak hvdlite's protocol" in text for text in first)
    assert (
        count
        == "the store has closed 295 more connections of strangers: none knew the job's secret"
    )


def test_without_descriptors_the_server_pauses_and_recovers(tmp_path):
    code = """
import resource, socket, sys, time, logging
sys.path.insert(0, sys.argv[1])
limit = float(sys.argv[2])
logging.basicConfig(level=logging.WARNING)
said = []
class Listener(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())
logging.getLogger().addHandler(Listener())
from hvdlite.rendezvous import StoreClient, StoreServer
secret = bytes(32)
server = StoreServer(secret).start()
client = StoreClient(server.address, secret, limit)
# All of them are taken before anybody calls: none is left for the server's side.
held = [socket.socket() for _ in range(40)]
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
for sock in held[:20]:
    sock.connect(server.address)
end = time.monotonic() + limit
while not any("accepts no connection" in text for text in said):
    assert time.monotonic() < end
    time.sleep(0.01)  # poll
client.set("k", b"v")
for sock in held:
    sock.close()
while True:
    try:
        StoreClient(server.address, secret, limit).get("k", limit)
        break
    except OSError:
        assert time.monotonic() < end
print("recovered")
server.close()
"""
    root = os.path.dirname(os.path.dirname(os.path.dirname(protocol.__file__)))
    command = [sys.executable, "-c", code, root, f"{LIMIT:g}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=6 * LIMIT)
    assert done.returncode == 0, done.stderr
    assert "recovered" in done.stdout
