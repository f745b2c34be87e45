"""Requests of members, or of `hvdlite leave`, to leave an elastic job at the next boundary. Pure.

    elastic/leave/<member>        this member leaves
    elastic/leave-host/<member>   all members of its host leave, and nothing starts there any more
    elastic/over/<member>         by the driver: it ends the process now, and SIGTERM is no notice
    elastic/generation            by the driver: the number of the latest roll

A decoder raises Refused and no other exception, whatever the bytes are.
"""

from __future__ import annotations

from dataclasses import dataclass

from hvdlite.rendezvous.fields import Fields, Refused, encoded

LEAVE = "leave"
LEAVE_HOST = "leave-host"
OVER = "over"
GENERATION = "generation"

MOST_TEXT = 200
_MOST_BYTES = 4096


@dataclass(frozen=True)
class Request:
    reason: str = ""
    seconds: float | None = None  # that the members have; None: --leave-seconds


def of(reason: str, seconds: float | None = None) -> Request:
    """A request whose reason is one line, whatever the program has given."""
    line = "".join(c if c.isprintable() else " " for c in reason)
    return Request(line[:MOST_TEXT], seconds)


def encode(request: Request) -> bytes:
    return encoded(vars(request))


def decode(data: bytes) -> Request:
    if len(data) > _MOST_BYTES:
        raise Refused(f"a request has at most {_MOST_BYTES} bytes")
    fields = Fields(data, set(Request.__dataclass_fields__))
    found = Request(fields.text("reason"), fields.seconds_or_none("seconds"))
    if len(found.reason) > MOST_TEXT:
        raise Refused(f"its reason has more than {MOST_TEXT} characters")
    return found
