"""What the process that serves the store does with its keys: it sets them, hears of them, ends a
meeting."""

from __future__ import annotations

import os
import select

import pytest
from store import SECRET, assert_serves, dial, frame, read_reply, request, shake_hands

from hvdlite.rendezvous import StoreClient, StoreServer, protocol


def _wait(watched):
    select.select([watched], [], [])
    return watched.take()


def test_a_key_that_the_owner_sets_answers_those_who_wait(server):
    with dial(server) as sock:
        shake_hands(sock)
        sock.sendall(frame(0, request(protocol.Operation.GET, "elastic/notice/1", 0xFFFFFFFF)))
        assert_serves(server)
        server.put("elastic/notice/1", b"a death")
        assert read_reply(sock, 0) == b"\0a death"


def test_the_owner_deletes_keys(server):
    server.put("a/1", b"x")
    server.delete("a")
    with StoreClient(server.address, SECRET) as client, pytest.raises(TimeoutError):
        client.get("a/1", 0)


def test_the_owner_hears_of_keys_below_its_prefix_in_their_order():
    server = StoreServer(SECRET)
    watched = server.watch("elastic/")
    with server, StoreClient(server.address, SECRET) as client:
        client.set("other", b"no")
        client.set("elastic/report/1/0", b"first")
        client.set("elastic/report/1/1", b"second")
        heard = []
        while len(heard) < 2:
            heard += _wait(watched)
        server.put("elastic/assignment/1", b"its own")  # the owner knows
        client.set("elastic/report/1/2", b"third")
        assert heard == [("report/1/0", b"first"), ("report/1/1", b"second")]
        assert _wait(watched) == [("report/1/2", b"third")]
    with pytest.raises(OSError):
        os.fstat(watched.fileno())


def test_a_store_is_watched_once_and_before_it_starts(server):
    with pytest.raises(RuntimeError):
        server.watch("elastic/")


def test_ranks_in_a_meeting_that_the_owner_calls_off_hear_why(server):
    with dial(server) as sock, dial(server) as late:
        shake_hands(sock)
        sock.sendall(
            frame(0, request(protocol.Operation.JOIN, "g2/init", 0, protocol.encode_count(2)))
        )
        read_reply(sock, 0)
        sock.sendall(frame(1, request(protocol.Operation.ARRIVE, "g2/init", 0xFFFFFFFF)))
        server.call_off("g2/init", "member 3 has ended")
        told = read_reply(sock, 1)
        assert told[0] == protocol.ReplyStatus.LOST and told.endswith(b"member 3 has ended")
        shake_hands(late)
        late.sendall(
            frame(0, request(protocol.Operation.JOIN, "g2/init", 1, protocol.encode_count(2)))
        )
        assert read_reply(late, 0)[0] == protocol.ReplyStatus.LOST
