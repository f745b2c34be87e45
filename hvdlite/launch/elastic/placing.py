"""Which slots are filled, and which rank each member has. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hvdlite.launch.hosts import Host


@dataclass(frozen=True)
class Candidate:
    """A member that may be in the next generation."""

    member: int
    host: str
    slot: int
    survivor: bool
    rank: int = -1  # in the last generation


def free_slots(
    hosts: Iterable[Host],
    taken: frozenset[tuple[str, int]] | set[tuple[str, int]],
    empty: Callable[[str, int], bool],
    beyond: Mapping[str, int],
) -> Iterator[tuple[str, int]]:
    """The slots that may be filled now, host by host and from below.

    While a lower slot cools down, the free ones above it wait: so a newcomer's local rank is its
    slot, and no two members take one GPU. `beyond`: by host, how many processes are in slots that
    it no longer has. The highest free slots stay empty for them.
    """
    for host in hosts:
        free = [slot for slot in range(host.slots) if (host.name, slot) not in taken]
        for slot in free[: max(0, len(free) - beyond.get(host.name, 0))]:
            if empty(host.name, slot):
                break
            yield host.name, slot


def in_order(candidates: Sequence[Candidate], hosts: Sequence[str]) -> list[Candidate]:
    """The order of ranks. `hosts`: those of the last generation in their order, then new ones.

    A host without survivors goes behind those with survivors, so rank 0 is a survivor.
    Within a host survivors keep their order, and newcomers follow by slot.
    """
    with_survivors = {each.host for each in candidates if each.survivor}
    number = {host: n for n, host in enumerate(hosts)}

    def key(each: Candidate) -> tuple[bool, int, bool, int, int]:
        order = each.rank if each.survivor else each.slot
        place = number.get(each.host, len(number))
        return each.host not in with_survivors, place, not each.survivor, order, each.member

    return sorted(candidates, key=key)
