"""Ranks that join at the store server, and what it tells the others when their connections end."""

from __future__ import annotations

import os
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
    shake_hands,
)

from hvdlite.rendezvous import StoreClient, protocol


def join(sock, rank, size=2):
    shake_hands(sock)
    sock.sendall(frame(0, request(protocol.Operation.JOIN, "j", rank, protocol.encode_count(size))))
    assert read_reply(sock, 0) == b"\0" + protocol.encode_joined(0, -1)


def arrive(sequence, wait=0xFFFFFFFF):
    return frame(sequence, request(protocol.Operation.ARRIVE, "j", wait))


def assert_lost(reply, rank, text):
    assert reply[0] == protocol.ReplyStatus.LOST
    assert struct.unpack_from("<i", reply, 1)[0] == rank and text.encode() in reply[8:], reply


def test_who_has_joined_is_known_before_it_says_anything_of_itself(server):
    with dial(server) as sock, StoreClient(server.address, SECRET, LIMIT) as client:
        join(sock, 1)
        assert client.get("j/0/joined/1", timeout=0) == b""
        with pytest.raises(TimeoutError):
            client.get("j/0/joined/0", timeout=0)


@pytest.mark.parametrize("waits_in", ["get", "collect", "arrive", "nothing"])
def test_a_rank_whose_connection_ends_is_named_to_those_who_wait_and_those_who_do_not(
    server, waits_in
):
    wait = {
        "get": frame(1, request(protocol.Operation.GET, "never", 0xFFFFFFFF)),
        "collect": frame(
            1, request(protocol.Operation.COLLECT, "never", 0xFFFFFFFF, protocol.encode_count(2))
        ),
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
        second.sendall(
            frame(1, request(protocol.Operation.FAIL, "j", 0, protocol.encode_verdict(0, 4, "no")))
        )
        assert read_reply(second, 2) == b"\3" + verdict


def test_neither_strangers_nor_members_that_do_not_join_have_a_will(server):
    with dial(server) as sock, StoreClient(server.address, SECRET, LIMIT) as friend:
        join(sock, 0)
        sock.sendall(frame(1, request(protocol.Operation.GET, "k", 0xFFFFFFFF)))
        # A wrong secret, with a request to join right behind it; garbage; a friend without a seat;
        # a twin of rank 0.
        with dial(server) as stranger:
            stranger.sendall(protocol.hello(os.urandom(32)))
            receive(stranger, protocol.ANSWER_BYTES)
            asks = request(protocol.Operation.JOIN, "j", 1, protocol.encode_count(2))
            stranger.sendall(
                bytes(32)
                + frame(0, asks)
                + frame(1, request(protocol.Operation.FAIL, "j", 0, b"x" * 9))
            )
            assert_closed(stranger)
        with dial(server) as garbage:
            garbage.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert_closed(garbage)
        assert_serves(server)
        with dial(server) as twin:
            shake_hands(twin)
            twin.sendall(
                frame(0, request(protocol.Operation.JOIN, "j", 0, protocol.encode_count(2)))
            )
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
import os, signal, sys
from hvdlite.rendezvous import StoreServer
with StoreServer(bytes(range(32))) as server:
    print(server.address[1], flush=True)
    sys.stdin.readline()
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        signal.pause()
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    rank0 = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    port = int(rank0.stdout.readline())
    child = None
    try:
        with socket.create_connection(("127.0.0.1", port), LIMIT) as sock:
            shake_hands(sock)
            rank0.stdin.write("fork\n")
            rank0.stdin.flush()
            child = int(rank0.stdout.readline())
            rank0.stdin.write("die\n")
            rank0.stdin.flush()
            assert rank0.wait(LIMIT) == -9
            assert_closed(sock)  # within the socket's timeout, which the child outlives
    finally:
        if child is not None:
            os.kill(child, 9)
        rank0.kill()
        rank0.communicate()
