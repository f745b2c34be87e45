"""A store's server and what a test says to it, byte by byte. Every socket here has a timeout, so no
test can hang."""

from __future__ import annotations

import logging
import os
import socket
import struct

from machine import within
from waiting import wait_until

from hvdlite.rendezvous import StoreClient, protocol

SECRET = bytes(range(32))
LIMIT = within(10)  # seconds that any one step may take


def dial(server):
    sock = socket.create_connection(server.address, LIMIT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what was sent is there
    return sock


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
    return wait_until(
        lambda: [w for w in warnings_of(caplog) if text in w],
        said=lambda: f"no warning with {text!r}, only {warnings_of(caplog)}",
    )


def resident():
    """Bytes of memory of this process, the server's thread included. Not the peak: other tests had
    theirs."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
