"""Announced ends: ranks that are about to leave, and how a rank asks to leave."""

from __future__ import annotations

from dataclasses import dataclass

from hvdlite.elastic import news
from hvdlite.job import membership
from hvdlite.job.membership import Member
from hvdlite.rendezvous import documents
from hvdlite.rendezvous.documents import DriverNotice

__all__ = ["Notice", "leave", "leaving"]

# leave() returns before the driver has answered if that takes longer.
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Notice:
    """Ranks that leave at the next boundary."""

    ranks: tuple[int, ...]  # in the present generation
    members: tuple[int, ...]  # the same processes, by their numbers
    seconds: float  # until the first of them is killed, if it has not left by then
    reason: str  # of the first of them
    this_rank: bool  # is one of them
    whole_job: bool  # no rank stays


def leave(reason: str = "") -> None:
    """Asks to leave: at the next boundary this rank leaves the job, and the others go on.

    Returns when the other ranks are told. A boundary is `state.commit()`, `state.step()` or
    `state.check_host_updates()`; there the function under `run` is left, and the process ends
    with exit code 0.
    """
    found = membership.member()
    if found is None:
        raise RuntimeError(
            "hvd.elastic.leave() is for elastic jobs: call it after hvd.init() in a job that "
            "hvdliterun has started with --min-np or --host-discovery-script."
        )
    ask(found, reason)
    number = found.number
    news.wait(lambda told: told.broken or number in _members(told, found), _PATIENCE_SECONDS)


def leaving() -> Notice | None:
    """Returns who is about to leave at the next boundary; None: no rank is."""
    found, told = membership.member(), news.latest()
    if found is None or told is None:
        return None
    return notice(told, found, news.age())


def ask(member: Member, reason: str) -> None:
    """Tells the driver, over a connection of its own: another thread may wait on the member's."""
    store = member.connect()
    try:
        key = f"{documents.LEAVE}/{member.number}"
        store.set(
            f"elastic/{key}",
            documents.encode_leave_request(documents.leave_request(reason), key, member.token),
        )
    finally:
        store.close()


def notice(told: DriverNotice, member: Member, age: float = 0.0) -> Notice | None:
    """What this notice says of leavers. `age`: for how many seconds it is known."""
    leavers = _members(told, member)
    if member.assignment is None or told.number <= member.assignment.answers or not leavers:
        return None
    numbers = member.assignment.member_numbers()
    first = min(told.leaving, key=lambda each: each.seconds, default=None)
    return Notice(
        ranks=tuple(rank for rank, number in enumerate(numbers) if number in leavers),
        members=leavers,
        seconds=max(0.0, first.seconds - age) if first else 0.0,
        reason=first.reason if first else "",
        this_rank=member.number in leavers,
        whole_job=set(numbers) <= set(leavers),
    )


def _members(told: DriverNotice, member: Member) -> tuple[int, ...]:
    numbers = member.assignment.member_numbers() if member.assignment else (member.number,)
    named = {each.member for each in told.leaving}
    return tuple(number for number in numbers if told.stop or number in named)
