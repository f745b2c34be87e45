"""Two living members that cannot reach each other: the network is at fault. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hvdlite.launch.elastic.members import Member
from hvdlite.rendezvous.documents import Cause

AGAIN_SECONDS = 60.0
# Lost packets of a new connection are sent again after 1 s and after 3 s.
LEAST_PATIENCE_SECONDS = 4


class Unreachable:
    """They train together once more. The second time within a minute, one host is put out."""

    def __init__(self) -> None:
        self._last: dict[frozenset[str], tuple[float, int]] = {}
        self._tries_again = False

    def judge(
        self, pairs: Iterable[tuple[str, str]], ranks: Sequence[str], generation: int, now: float
    ) -> str | None:
        """The host to put out, or None. `pairs` of hosts; `ranks`: the hosts of all ranks.

        It is the host with fewer members, and the later one of two equal ones.
        """
        count = Counter(ranks)
        different = sorted({frozenset(pair) for pair in pairs}, key=sorted)
        self._tries_again = any(len(pair) == 2 for pair in different)
        for pair in different:
            before, last = self._last.get(pair, (float("-inf"), generation))
            self._last[pair] = now, generation
            if len(pair) == 2 and last != generation and now - before <= AGAIN_SECONDS:
                return min(pair, key=lambda host: (count[host], -ranks.index(host)))
        return None

    def patience(self, silence: float, were_up: bool) -> int | None:
        """How long the members of the next assignment may take to meet; None: the start timeout.

        `were_up`: the members have met before. If two hosts did not reach each other since, for
        longer than a heartbeat may take, the next attempt tells soon whether they do again.
        """
        if not (self._tries_again and were_up and silence):
            return None
        return max(LEAST_PATIENCE_SECONDS, math.ceil(silence / 2))


def accusations(members: Sequence[Member]) -> Iterator[tuple[str, str]]:
    """The hosts of members that accuse another one which has reported as well."""
    hosts = {member.number: member.host for member in members}
    for member in members:
        for accusation in member.report.accused if member.report else ():
            if accusation.cause is not Cause.CLOSED and accusation.member in hosts:
                yield member.host, hosts[accusation.member]
