"""Requests of members, or of `hvdlite leave`, to leave an elastic job at the next boundary. Pure.

    elastic/leave/<member>        this member leaves
    elastic/leave-host/<member>   all members of its host leave, and nothing starts there any more
    elastic/over/<member>         by the driver: it ends the process now, and SIGTERM is no notice
    elastic/generation            by the driver: the number of the latest roll

Requests are sealed with the token of the member in their key, also those of `hvdlite leave`, which
finds it in the environment of the member's process.
A decoder raises Refused and no other exception, whatever the bytes are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hvdlite.rendezvous import seal
from hvdlite.rendezvous.fields import Fields, Refused, encoded

LEAVE = "leave"
LEAVE_HOST = "leave-host"
OVER = "over"
GENERATION = "generation"

MOST_TEXT = 200
_MOST_BYTES = 4096
_LABEL = b"hvdlite request 1\n"


@dataclass(frozen=True)
class Request:
    reason: str = ""
    seconds: float | None = None  # that the members have; None: --leave-seconds


def of(reason: str, seconds: float | None = None) -> Request:
    """A request whose reason is one line, whatever the program has given."""
    line = "".join(c if c.isprintable() else " " for c in reason)
    return Request(line[:MOST_TEXT], seconds)


def encode(request: Request, key: str, token: bytes) -> bytes:
    """The value of this key, which is without `elastic/`."""
    fields = vars(request)
    return encoded({**fields, "seal": seal.made(_LABEL, _sealed(key, fields), token)})


def decode(data: bytes, key: str, token: bytes, member: int) -> Request:
    if len(data) > _MOST_BYTES:
        raise Refused(f"a request has at most {_MOST_BYTES} bytes")
    fields = Fields(data, {*Request.__dataclass_fields__, "seal"})
    found = Request(fields.text("reason"), fields.seconds_or_none("seconds"))
    if len(found.reason) > MOST_TEXT:
        raise Refused(f"its reason has more than {MOST_TEXT} characters")
    if not seal.fits(_LABEL, _sealed(key, vars(found)), token, fields.text("seal").encode()):
        raise Refused(f"it is not sealed with the token of member {member}")
    return found


def _sealed(key: str, fields: Mapping[str, Any]) -> bytes:
    return f"{key}\n".encode() + encoded(fields)
