"""The store server against friends and strangers. Every socket here has a timeout, so no test can hang."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from hvdlite.rendezvous import HandshakeError, StoreClient, StoreServer, new_secret, protocol

SECRET = bytes(range(32))
LIMIT = 10.0  # seconds that any one step may take


@pytest.fixture
def server():
    with StoreServer(SECRET) as running:
        yield running


@pytest.fixture
def client(server):
    with StoreClient(server.address, SECRET, LIMIT) as connected:
        yield connected


def dial(server):
    return socket.create_connection(server.address, LIMIT)


def receive(sock, size):
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            break
        data += piece
    return data


def shake_hands(sock, secret=SECRET):
    nonce = os.urandom(32)
    sock.sendall(protocol.hello(nonce))
    sock.sendall(protocol.answer_server(secret, nonce, receive(sock, protocol.ANSWER_BYTES)))


def frame(sequence, payload):
    return struct.pack("<IQ", sequence, len(payload)) + payload


def request(operation, key, argument=0, value=b""):
    return protocol.encode_request(protocol.Request(operation, key, argument, value))


def read_reply(sock, sequence):
    header = receive(sock, 12)
    assert len(header) == 12, "the server closed the connection"
    assert struct.unpack("<I", header[:4])[0] == sequence
    return receive(sock, struct.unpack("<Q", header[4:])[0])


def assert_closed(sock):
    try:
        assert receive(sock, 1 << 20) == b""
    except ConnectionResetError:
        pass


def assert_serves(server):
    with StoreClient(server.address, SECRET, LIMIT) as friend:
        friend.set("alive", b"yes")
        assert friend.get("alive", LIMIT) == b"yes"


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def wait_for_warning(caplog, text):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found = [w for w in warnings_of(caplog) if text in w]
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"no warning with {text!r}, only {warnings_of(caplog)}")


def resident():
    """Bytes of memory of this process, the server's thread included. Not the peak: other tests had theirs."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Friends.


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
        thread = threading.Thread(target=lambda: got.append(waiting.get("late", LIMIT)), daemon=True)
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
    with pytest.raises(TimeoutError, match="nobody set 'never' in time"):
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
        thread = threading.Thread(target=lambda: got.append(waiting.collect("m", 2, LIMIT)), daemon=True)
        client.set("m/0", b"old")
        thread.start()
        time.sleep(0.05)
        client.delete("m")
        client.set("m/1", b"b")
        time.sleep(0.05)
        assert got == []
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
        ahead = b"".join(frame(i, request(protocol.Operation.ADD, "n", 0, struct.pack("<q", 1))) for i in range(1, 50))
        sock.sendall(frame(0, get) + ahead)
        assert_serves(server)
        with StoreClient(server.address, SECRET, LIMIT) as other:
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
    time.sleep(0.05)
    server.close()
    server.close()
    thread.join(LIMIT)
    assert "closed the connection" in errors[0] and "launcher" in errors[0]
    with pytest.raises(ConnectionError, match="lost the job's store"):
        client.set("k", b"")
    with pytest.raises(ConnectionError, match="is the launcher still running"):
        StoreClient(server.address, SECRET, LIMIT)


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


# Ranks that join, and their last wills.


def join(sock, rank, size=2):
    shake_hands(sock)
    sock.sendall(frame(0, request(protocol.Operation.JOIN, "j", rank, protocol.encode_count(size))))
    assert read_reply(sock, 0) == b"\0" + protocol.encode_seat(0, -1)


def arrive(sequence, wait=0xFFFFFFFF):
    return frame(sequence, request(protocol.Operation.ARRIVE, "j", wait))


def assert_lost(reply, rank, text):
    assert reply[0] == protocol.ReplyStatus.LOST
    assert struct.unpack_from("<i", reply, 1)[0] == rank and text.encode() in reply[6:], reply


@pytest.mark.parametrize("waits_in", ["get", "collect", "arrive", "nothing"])
def test_a_rank_whose_connection_ends_is_named_to_those_who_wait_and_those_who_do_not(server, waits_in):
    wait = {
        "get": frame(1, request(protocol.Operation.GET, "never", 0xFFFFFFFF)),
        "collect": frame(1, request(protocol.Operation.COLLECT, "never", 0xFFFFFFFF, protocol.encode_count(2))),
        "arrive": arrive(1),
        "nothing": b"",
    }[waits_in]
    with dial(server) as sock, dial(server) as victim:
        join(sock, 0)
        join(victim, 1)
        sock.sendall(wait)
        assert_serves(server)  # so that the wait has begun
        ended = time.monotonic()
        victim.close()
        assert_lost(read_reply(sock, 1), 1, "rank 1 died during hvd.init()")
        assert time.monotonic() - ended < LIMIT / 2
        # The key it waited for changes nothing any more.
        with StoreClient(server.address, SECRET, LIMIT) as friend:
            friend.set("never", b"x")
            friend.set("never/0", b"x")
            friend.set("never/1", b"x")
        sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            sock.recv(1)


def test_those_who_have_all_arrived_may_leave(server):
    with dial(server) as first, dial(server) as second:
        join(first, 0)
        join(second, 1)
        first.sendall(arrive(1))
        assert_serves(server)
        second.sendall(arrive(1))
        assert read_reply(first, 1)[0] == read_reply(second, 1)[0] == protocol.ReplyStatus.OK
        second.close()
        assert_serves(server)
        first.sendall(frame(2, request(protocol.Operation.ADD, "n", 0, struct.pack("<q", 1))))
        assert read_reply(first, 2) == b"\0" + struct.pack("<q", 1)


def test_arriving_alone_times_out_and_names_the_missing(server):
    with dial(server) as sock, dial(server) as other:
        join(sock, 0)
        join(other, 1)
        sock.sendall(arrive(1, 20))
        reply = read_reply(sock, 1)
        assert reply[0] == protocol.ReplyStatus.TIMEOUT and reply.endswith(b"in time: 1")


def test_a_failure_is_told_word_for_word_and_the_first_one_counts(server):
    verdict = protocol.encode_verdict(7, 6, "rank 7 did not come")
    with dial(server) as first, dial(server) as second:
        join(first, 0)
        join(second, 1)
        first.sendall(frame(1, request(protocol.Operation.FAIL, "j", 0, verdict)))
        assert read_reply(first, 1) == b"\0"
        assert read_reply(second, 1) == b"\3" + verdict
        second.sendall(frame(1, request(protocol.Operation.FAIL, "j", 0, protocol.encode_verdict(0, 4, "no"))))
        assert read_reply(second, 2) == b"\3" + verdict


def test_neither_strangers_nor_members_that_do_not_join_have_a_will(server):
    with dial(server) as sock, StoreClient(server.address, SECRET, LIMIT) as friend:
        join(sock, 0)
        sock.sendall(frame(1, request(protocol.Operation.GET, "k", 0xFFFFFFFF)))
        # A wrong secret, with a request to join right behind it; garbage; a friend without a seat; a twin of rank 0.
        with dial(server) as stranger:
            stranger.sendall(protocol.hello(os.urandom(32)))
            receive(stranger, protocol.ANSWER_BYTES)
            asks = request(protocol.Operation.JOIN, "j", 1, protocol.encode_count(2))
            stranger.sendall(bytes(32) + frame(0, asks) + frame(1, request(protocol.Operation.FAIL, "j", 0, b"x" * 9)))
            assert_closed(stranger)
        with dial(server) as garbage:
            garbage.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert_closed(garbage)
        assert_serves(server)
        with dial(server) as twin:
            shake_hands(twin)
            twin.sendall(frame(0, request(protocol.Operation.JOIN, "j", 0, protocol.encode_count(2))))
            assert read_reply(twin, 0)[0] == protocol.ReplyStatus.BAD_REQUEST
            twin.sendall(frame(1, request(protocol.Operation.FAIL, "j", 0, b"x" * 9)))
            assert read_reply(twin, 1)[0] == protocol.ReplyStatus.BAD_REQUEST
        assert_serves(server)
        friend.set("k", b"still waited for")
        assert read_reply(sock, 1) == b"\0still waited for"
        # The seat of rank 1 is free.
        with dial(server) as second:
            join(second, 1)


@pytest.mark.parametrize("value", [b"", b"\2\0\0", b"\2\0\0\0\0", b"\0\0\0\0", b"\xff\xff\xff\xff"])
def test_a_request_to_join_that_makes_no_sense_is_refused_and_leaves_no_will(server, value):
    with dial(server) as sock, dial(server) as first:
        join(first, 0)
        shake_hands(sock)
        sock.sendall(frame(0, request(protocol.Operation.JOIN, "j", 1, value)))
        assert read_reply(sock, 0)[0] == protocol.ReplyStatus.BAD_REQUEST
        sock.close()
        assert_serves(server)
        first.sendall(frame(1, request(protocol.Operation.SET, "k")))
        assert read_reply(first, 1) == b"\0"


def test_a_frame_that_breaks_the_protocol_costs_a_member_its_seat(server, caplog):
    with dial(server) as sock, dial(server) as broken:
        join(sock, 0)
        join(broken, 1)
        broken.sendall(frame(9, b"x"))
        assert_lost(read_reply(sock, 1), 1, "rank 1")


def test_a_fork_of_the_servers_process_does_not_keep_its_end_secret():
    """Rank 0 may serve the store, and have data loaders."""
    code = """
import os, signal, sys, time
from hvdlite.rendezvous import StoreServer
with StoreServer(bytes(range(32))) as server:
    print(server.address[1], flush=True)
    sys.stdin.readline()
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    print(child, flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    rank0 = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(rank0.stdout.readline())
    child = None
    try:
        with socket.create_connection(("127.0.0.1", port), LIMIT) as sock:
            shake_hands(sock)
            rank0.stdin.write("fork\n")
            rank0.stdin.flush()
            child = int(rank0.stdout.readline())
            time.sleep(0.2)
            rank0.stdin.write("die\n")
            rank0.stdin.flush()
            assert rank0.wait(LIMIT) == -9
            assert_closed(sock)  # within the socket's timeout, which the child outlives
    finally:
        if child is not None:
            os.kill(child, 9)
        rank0.kill()
        rank0.communicate()


# Strangers.


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
def test_garbage_is_shown_out_at_once(server, caplog, garbage):
    start = time.monotonic()
    with dial(server) as sock:
        sock.sendall(garbage)
        assert_closed(sock)
    assert time.monotonic() - start < protocol.HANDSHAKE_SECONDS / 2
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
        sock.sendall(proof + frame(0, request(protocol.Operation.ADD, "n", 0, struct.pack("<q", 1))))
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
    monkeypatch.setattr(protocol, "HANDSHAKE_SECONDS", 1.0)
    with dial(server) as silent, dial(server) as loris:
        start = time.monotonic()
        for byte in protocol.hello(os.urandom(32))[:3]:
            loris.sendall(bytes([byte]))
            assert_serves(server)
            time.sleep(0.02)
        assert time.monotonic() - start < 1.0
        assert_closed(loris)
        assert_closed(silent)
        assert time.monotonic() - start < LIMIT
    assert len(wait_for_warning(caplog, "did not finish the handshake within 1 s")) == 2


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
    monkeypatch.setattr("hvdlite.rendezvous.server._MAX_STRANGERS", 20)
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(dial(server)) for _ in range(60)]
        assert_serves(server)
        assert_closed(strangers[0])
    wait_for_warning(caplog, "more than 20 handshakes are under way")


def test_without_descriptors_the_server_pauses_and_recovers(tmp_path):
    code = """
import resource, socket, sys, time, logging
sys.path.insert(0, sys.argv[1])
logging.basicConfig(level=logging.WARNING)
from hvdlite.rendezvous import StoreClient, StoreServer
secret = bytes(32)
server = StoreServer(secret).start()
client = StoreClient(server.address, secret, 10)
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
held = []
try:
    while True:
        held.append(socket.create_connection(server.address, 10))
except OSError:
    pass
time.sleep(0.5)
client.set("k", b"v")
for sock in held:
    sock.close()
end = time.monotonic() + 10
while True:
    try:
        StoreClient(server.address, secret, 10).get("k", 5)
        break
    except OSError:
        assert time.monotonic() < end
print("recovered")
server.close()
"""
    root = os.path.dirname(os.path.dirname(os.path.dirname(protocol.__file__)))
    done = subprocess.run([sys.executable, "-c", code, root], capture_output=True, text=True, timeout=6 * LIMIT)
    assert done.returncode == 0, done.stderr
    assert "recovered" in done.stdout
    assert "accepts nobody" in done.stderr
