"""Announced ends: ranks that are about to leave, and how a rank asks to leave."""

from __future__ import annotations

from dataclasses import dataclass

from hvdlite.elastic import news
from hvdlite.job import membership
from hvdlite.job.membership import Member
from hvdlite.rendezvous import request
from hvdlite.rendezvous.roll import News

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
        key = f"{request.LEAVE}/{member.number}"
        store.set(f"elastic/{key}", request.encode(request.of(reason), key, member.token))
    finally:
        store.close()


def notice(told: News, member: Member, age: float = 0.0) -> Notice | None:
    """What these news say of leavers. `age`: for how many seconds they are known."""
    leavers = _members(told, member)
    if member.roll is None or told.number <= member.roll.answers or not leavers:
        return None
    numbers = member.roll.numbers()
    first = min(told.leaving, key=lambda each: each.seconds, default=None)
    return Notice(
        ranks=tuple(rank for rank, number in enumerate(numbers) if number in leavers),
        members=leavers,
        seconds=max(0.0, first.seconds - age) if first else 0.0,
        reason=first.reason if first else "",
        this_rank=member.number in leavers,
        whole_job=set(numbers) <= set(leavers),
    )


def _members(told: News, member: Member) -> tuple[int, ...]:
    numbers = member.roll.numbers() if member.roll else (member.number,)
    named = {each.member for each in told.leaving}
    return tuple(number for number in numbers if told.stop or number in named)
