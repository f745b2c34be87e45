"""Requests of members, or of `hvdlite leave`, to leave an elastic job at the next boundary. Pure.

    elastic/leave/<member>        this member leaves
    elastic/leave-host/<member>   all members of its host leave, and nothing starts there any more
    elastic/over/<member>         by the driver: it ends the process now, and SIGTERM is no notice
    elastic/generation            by the driver: the number of the latest roll

A decoder raises Refused and no other exception, whatever the bytes are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from hvdlite.rendezvous.roll import Refused

LEAVE = "leave"
LEAVE_HOST = "leave-host"
OVER = "over"
GENERATION = "generation"

MOST_TEXT = 200
_MOST_SECONDS = 1e9
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
    return json.dumps(vars(request)).encode()


def decode(data: bytes) -> Request:
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError
        found = json.loads(data.decode("ascii"))
        reason, seconds = found["reason"], found["seconds"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Refused("it is no JSON object with a reason and seconds") from None
    if not isinstance(reason, str) or len(reason) > MOST_TEXT or not reason.isprintable():
        raise Refused(f"its reason is no printable text of at most {MOST_TEXT} characters")
    if seconds is None:
        return Request(reason)
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 <= seconds <= _MOST_SECONDS:
        raise Refused("its seconds are no number of seconds")
    return Request(reason, float(seconds))
