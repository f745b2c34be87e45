"""Requests to leave that come as keys of the store, and what the driver says before SIGTERM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hvdlite.launch.elastic.events import HostLeaves, MemberLeaves
from hvdlite.rendezvous import request, roll
from hvdlite.rendezvous.server import StoreServer

KINDS = (request.LEAVE, request.LEAVE_HOST)
_PREFIX = "elastic/"

Event = MemberLeaves | HostLeaves


def event(what: str, member: int, value: bytes, token: bytes, hosts: Mapping[int, str]) -> Event:
    """`token`: of the member. `hosts`: of all members. Raises Refused."""
    host, asked = hosts.get(member), request.decode(value, f"{what}/{member}", token, member)
    if host is None:
        raise roll.Refused(f"member {member} has no host")
    if what == request.LEAVE:
        return MemberLeaves(member, asked.reason, asked.seconds)
    return HostLeaves(host, asked.reason, asked.seconds)


def say_over(store: StoreServer, members: Iterable[int]) -> None:
    """The SIGTERM that these processes will get is no notice, but their end."""
    for member in members:
        store.put(f"{_PREFIX}{request.OVER}/{member}", b"")


def forget(store: StoreServer, member: int) -> None:
    """Its process is gone."""
    for kind in (*KINDS, request.OVER):
        store.delete(f"{_PREFIX}{kind}/{member}")
