"""`hvdlite.run(fn, min_num_proc=...)`: the results of an elastic job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.launch import delivery
from hvdlite.launch.elastic.context import ElasticVerdict
from hvdlite.launch.verdict import is_consequence
from hvdlite.rendezvous import StoreClient


class ElasticDelivery(delivery.Delivery):
    """`least`: how many results are wanted; `every`: at least. They are those of the first ranks
    of the last generation. A rank that died behind the others' return is passed over."""

    def __init__(
        self,
        payload: bytes,
        verdict: ElasticVerdict,
        least: int,
        command: Sequence[str],
        every: bool = False,
    ) -> None:
        super().__init__(payload)
        self._verdict, self._least, self._command = verdict, least, command
        self._every = every

    def collect(self, client: StoreClient) -> list[Any]:
        verdict = self._verdict
        delivery.interrupted_by(verdict.interrupted or verdict.stopped)
        if verdict.status() != 0:
            self._fail(client)
        found: list[Any] = []
        for member in self._members():
            try:
                found.append(delivery.result(client, member, self._name(member)))
            except TimeoutError:
                continue
            if len(found) == self._least and not self._every:
                return found
        if len(found) >= self._least:
            return found
        raise RuntimeError(
            f"the function has returned on {len(found)} ranks, and {self._least} results are "
            "wanted (min_num_proc): the other ranks have ended without one, for example by "
            "sys.exit()"
        )

    def _members(self) -> list[int]:
        """Those of the last generation by rank, then others, which have returned before it."""
        last = self._verdict.ranks
        return [*last, *(member for member in sorted(self._verdict.hosts) if member not in last)]

    def _name(self, member: int) -> str:
        return f"member {member} on {self._verdict.hosts[member]}"

    def _fail(self, client: StoreClient) -> None:
        sentence = self._verdict.sentence(self._command).replace("hvdliterun: ", "")
        for member in sorted(self._verdict.hosts, reverse=True):
            report = delivery.failure_of(client, member)
            if report is not None and not is_consequence(report.last_line.encode()):
                delivery.fail(sentence, self._name(member), report)
        raise RuntimeError(sentence)
