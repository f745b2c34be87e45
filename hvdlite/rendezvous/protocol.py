"""The messages of docs/how-it-works/wire.md as bytes. Needs no socket."""

from __future__ import annotations

import enum
import hmac
import os
import struct
from collections.abc import Collection
from typing import NamedTuple

MAGIC = b"hvdlite1"
PURPOSE_STORE = 0
PURPOSE_LINK = 1
PURPOSE_WATCH = 2
SECRET_BYTES = 32
NONCE_BYTES = 32
PROOF_BYTES = 32
HELLO_BYTES = len(MAGIC) + 1 + NONCE_BYTES
ANSWER_BYTES = len(MAGIC) + NONCE_BYTES + PROOF_BYTES
# How long a server waits for the handshake of a new connection.
HANDSHAKE_SECONDS = 5.0

FRAME_HEADER = struct.Struct("<IQ")  # sequence, length
MAX_PAYLOAD = 64 << 20
MAX_KEY_BYTES = 4096
MAX_COLLECT = 1 << 20
MAX_VERDICT = 4096
NOBODY = -1  # for a rank that is not known
WAIT_FOREVER = 0xFFFFFFFF  # a timeout in milliseconds

_REQUEST_HEADER = struct.Struct("<BI")  # operation, key length
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")
_JOINED = struct.Struct("<Ii")  # attempt, the rank that serves the store
# The lost rank, status code, why it is lost, and how many more ranks are concerned.
_VERDICT = struct.Struct("<iBBB")
_MAX_SEQUENCE = 0xFFFFFFFF


class ProtocolError(ConnectionError):
    """The other side has violated the protocol. The connection cannot be used any more."""


class HandshakeError(ProtocolError):
    """The other side does not know the job's secret, or is not hvdlite."""


class BadRequest(ValueError):
    """A well-framed request that the store cannot serve. The connection continues."""


class Operation(enum.IntEnum):
    SET = 1
    GET = 2
    COLLECT = 3
    ADD = 4
    DELETE = 5
    JOIN = 6
    ARRIVE = 7
    FAIL = 8


class ReplyStatus(enum.IntEnum):
    OK = 0
    TIMEOUT = 1
    BAD_REQUEST = 2
    LOST = 3


class Request(NamedTuple):
    operation: Operation
    key: str
    argument: int = 0
    value: bytes = b""


def new_secret() -> bytes:
    """Returns a new secret for one job."""
    return os.urandom(SECRET_BYTES)


def check_secret(secret: bytes) -> bytes:
    if not isinstance(secret, (bytes, bytearray)) or len(secret) != SECRET_BYTES:
        raise ValueError(f"a job's secret has to be {SECRET_BYTES} bytes (use new_secret())")
    return bytes(secret)


# The handshake. Each function makes or checks one step; nonces are fresh for each connection.


def _proof(
    secret: bytes, label: bytes, purpose: int, client_nonce: bytes, server_nonce: bytes
) -> bytes:
    return hmac.digest(secret, label + bytes([purpose]) + client_nonce + server_nonce, "sha256")


def hello(client_nonce: bytes, purpose: int = PURPOSE_STORE) -> bytes:
    """Step 1, by the client."""
    return MAGIC + bytes([purpose]) + client_nonce


def check_magic(data: bytes | bytearray) -> None:
    """Checks the first bytes, however many have come. So a browser or a port scanner is rejected
    early."""
    if not MAGIC.startswith(data[: len(MAGIC)]):
        raise HandshakeError("it does not speak hvdlite's protocol, version 1")


def purpose_of(data: bytes) -> int:
    """What the client of this step 1 wants."""
    return data[len(MAGIC)]


def answer_hello(
    secret: bytes, data: bytes, server_nonce: bytes, purposes: Collection[int] = (PURPOSE_STORE,)
) -> tuple[bytes, bytes]:
    """Step 2, by the server. Returns what to send, and the proof that has to come back."""
    check_magic(data)
    purpose = purpose_of(data)
    if purpose not in purposes:
        raise HandshakeError(
            f"it wants a connection for purpose {purpose}, this port serves purpose 0 (store)"
        )
    client_nonce = data[len(MAGIC) + 1 :]
    answer = (
        MAGIC
        + server_nonce
        + _proof(secret, b"hvdlite server", purpose, client_nonce, server_nonce)
    )
    return answer, _proof(secret, b"hvdlite client", purpose, client_nonce, server_nonce)


def answer_server(
    secret: bytes, client_nonce: bytes, data: bytes, purpose: int = PURPOSE_STORE
) -> bytes:
    """Step 3, by the client, after it has checked the server's proof."""
    check_magic(data)
    server_nonce = data[len(MAGIC) : len(MAGIC) + NONCE_BYTES]
    proof = _proof(secret, b"hvdlite server", purpose, client_nonce, server_nonce)
    if not hmac.compare_digest(proof, data[len(MAGIC) + NONCE_BYTES :]):
        raise HandshakeError(
            "it does not know this job's secret: another job may be listening there"
        )
    return _proof(secret, b"hvdlite client", purpose, client_nonce, server_nonce)


def check_client(expected_proof: bytes, data: bytes) -> None:
    """Checks step 3, by the server."""
    if not hmac.compare_digest(expected_proof, data):
        raise HandshakeError("it does not know this job's secret")


# Frames and what is in them.


def next_sequence(sequence: int) -> int:
    return (sequence + 1) & _MAX_SEQUENCE


def parse_frame_header(header: bytes, expected_sequence: int) -> int:
    """Returns the length of the payload that follows."""
    sequence, length = FRAME_HEADER.unpack(header)
    if sequence != expected_sequence:
        raise ProtocolError(f"frame {sequence} came instead of frame {expected_sequence}")
    if length > MAX_PAYLOAD:
        raise ProtocolError(
            f"a frame of {length} bytes was announced; at most {MAX_PAYLOAD} are allowed"
        )
    return int(length)


def encode_request(request: Request) -> bytes:
    key = request.key.encode()
    if not 1 <= len(key) <= MAX_KEY_BYTES:
        raise ValueError(f"a key of the store has 1 to {MAX_KEY_BYTES} bytes, not {len(key)}")
    head = _REQUEST_HEADER.pack(request.operation, len(key))
    payload = b"".join((head, key, _U32.pack(request.argument), request.value))
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(
            f"the value of {request.key!r} has {len(request.value)} bytes; with the key 64 MiB are "
            "possible"
        )
    return payload


def decode_request(payload: bytes) -> Request:
    if len(payload) < _REQUEST_HEADER.size:
        raise BadRequest("the request is cut off")
    number, key_bytes = _REQUEST_HEADER.unpack_from(payload)
    if not 1 <= key_bytes <= MAX_KEY_BYTES:
        raise BadRequest(f"a key has 1 to {MAX_KEY_BYTES} bytes, not {key_bytes}")
    start = _REQUEST_HEADER.size
    end = start + key_bytes
    if len(payload) < end + _U32.size:
        raise BadRequest("the request is cut off")
    try:
        operation = Operation(number)
    except ValueError:
        raise BadRequest(f"operation {number} does not exist") from None
    try:
        key = bytes(payload[start:end]).decode()
    except UnicodeDecodeError:
        raise BadRequest("the key is not UTF-8") from None
    return Request(
        operation, key, _U32.unpack_from(payload, end)[0], bytes(payload[end + _U32.size :])
    )


def encode_count(n: int) -> bytes:
    return _U32.pack(n)


def decode_count(value: bytes) -> int:
    if len(value) != _U32.size:
        raise BadRequest("collect wants a count of 4 bytes")
    n = int(_U32.unpack(value)[0])
    if n > MAX_COLLECT:
        raise BadRequest(f"cannot collect {n} keys, only {MAX_COLLECT}")
    return n


def encode_counter(value: int) -> bytes:
    return _I64.pack(value)


def decode_counter(value: bytes) -> int:
    if len(value) != _I64.size:
        raise BadRequest("a counter has 8 bytes")
    return int(_I64.unpack(value)[0])


def encode_joined(attempt: int, served_by: int) -> bytes:
    return _JOINED.pack(attempt, served_by)


def encode_verdict(rank: int, code: int, sentence: str, cause: int = 0) -> bytes:
    return _VERDICT.pack(rank, code, cause, 0) + sentence.encode()[: MAX_VERDICT - _VERDICT.size]


def check_verdict(verdict: bytes) -> bytes:
    """Checks what a rank says of its failure; the others get it word for word."""
    if not _VERDICT.size < len(verdict) <= MAX_VERDICT:
        raise BadRequest(
            f"a verdict has {_VERDICT.size + 1} to {MAX_VERDICT} bytes, not {len(verdict)}"
        )
    if _VERDICT.unpack_from(verdict)[1] == 0:
        raise BadRequest("a failure needs a status code")
    return verdict


def encode_reply(status: ReplyStatus, value: bytes = b"") -> bytes:
    return bytes([status]) + value


def encode_values(values: list[bytes]) -> bytes:
    return b"".join(part for value in values for part in (_U64.pack(len(value)), value))


def decode_values(data: bytes, n: int) -> list[bytes]:
    values = []
    start = 0
    for _ in range(n):
        if len(data) - start < _U64.size:
            raise ProtocolError("the reply to 'collect' is cut off")
        length = _U64.unpack_from(data, start)[0]
        start += _U64.size
        if len(data) - start < length:
            raise ProtocolError("the reply to 'collect' is cut off")
        values.append(bytes(data[start : start + length]))
        start += length
    if start != len(data):
        raise ProtocolError("the reply to 'collect' has bytes after its end")
    return values
