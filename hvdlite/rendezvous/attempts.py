"""Tracks which ranks join which job, and what the others are told when one is lost. Pure: no
socket, no thread, no clock.

A rank that joins leaves its last will. If its connection ends before all ranks have arrived, the
attempt to meet has failed, and all its ranks are told which one was lost. An attempt fails once,
and its first verdict is that of all.

After a failed attempt, a rank that knows of the failure opens the next attempt by joining again. A
rank that comes late and does not know of it is told first, instead of waiting for ranks that have
given up.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from hvdlite.exceptions import Cause
from hvdlite.rendezvous.protocol import MAX_COLLECT, NOBODY, BadRequest, encode_verdict

# StatusCode::kPeerLost in csrc/base/status.h
PEER_LOST = 4


class AttemptFailed(Exception):
    """The attempt has failed. `verdict` says why, in the bytes of the protocol."""

    def __init__(self, verdict: bytes) -> None:
        super().__init__()
        self.verdict = verdict


@dataclass
class Attempt:
    name: str
    number: int
    size: int
    # by rank: the connection that speaks for it
    connections: dict[int, Hashable] = field(default_factory=dict)
    arrived: set[int] = field(default_factory=set)
    verdict: bytes | None = None
    told: set[int] = field(default_factory=set)  # the ranks that know of the failure, or are dead

    @property
    def met(self) -> bool:
        return self.verdict is None and len(self.arrived) == self.size

    @property
    def key(self) -> str:
        """Returns the prefix of this attempt's keys."""
        return f"{self.name}/{self.number}/"


class Attempts:
    """`who` identifies a connection; any hashable object will do. A call that raises changes
    nothing, except which ranks have been told."""

    def __init__(self) -> None:
        self._latest: dict[str, Attempt] = {}
        self._joined: dict[Hashable, tuple[Attempt, int]] = {}
        self._called_off: dict[str, bytes] = {}  # by name: the verdict

    def join(self, name: str, rank: int, size: int, who: Hashable) -> int:
        """From now on `who` speaks for the rank. Returns the number of the attempt."""
        if not 0 <= rank < size <= MAX_COLLECT:
            raise BadRequest(f"rank {rank} of {size} cannot join a job")
        if who in self._joined:
            raise BadRequest("this connection speaks for a rank already")
        if name in self._called_off:
            raise AttemptFailed(self._called_off[name])
        attempt = self._open(name, rank, size)
        if attempt.size != size:
            raise BadRequest(
                f"rank {rank} expects a job of {size} ranks, the others one of {attempt.size}"
            )
        if rank in attempt.connections:
            raise BadRequest(
                f"another process is rank {rank} of this job already: were two started with that "
                "number?"
            )
        attempt.connections[rank] = who
        self._joined[who] = attempt, rank
        return attempt.number

    def arrive(self, who: Hashable) -> tuple[Attempt, int]:
        """The rank is ready. When all ranks are, their wills are void. Returns the attempt and the
        rank."""
        attempt, rank = self._joined_as(who)
        attempt.arrived.add(rank)
        if attempt.met:
            attempt.connections.clear()
        return attempt, rank

    def fail(self, who: Hashable, verdict: bytes) -> list[Hashable]:
        """The rank cannot join. Returns the other connections, which must get its verdict."""
        attempt, rank = self._joined_as(who)
        if attempt.met:
            raise BadRequest("all ranks have met already")
        return self._end(attempt, rank, verdict)

    def call_off(self, name: str, verdict: bytes) -> list[Hashable]:
        """Ends the rendezvous of this name. Returns the connections that have joined, which must be
        told.

        An attempt in which all ranks have met does not change, but there is none after it.
        """
        attempt = self._latest.get(name)
        self._called_off.setdefault(name, verdict)
        if attempt is None or attempt.met or attempt.verdict is not None:
            return []
        return self._end(attempt, NOBODY, verdict)

    def gone(self, who: Hashable) -> tuple[bytes, list[Hashable]] | None:
        """The connection has ended. If this executes a will, returns the verdict and the
        connections that must get it."""
        attempt, rank = self._joined.pop(who, (None, -1))
        if attempt is None or attempt.met or attempt.verdict is not None:
            return None
        text = (
            f"rank {rank} died during hvd.init(): its process ended, or its connection with the "
            "job's store broke. "
            "Look at its output for the cause: an exception, the out-of-memory killer, a signal."
        )
        verdict = encode_verdict(rank, PEER_LOST, text, Cause.DIED)
        return verdict, self._end(attempt, rank, verdict)

    def _open(self, name: str, rank: int, size: int) -> Attempt:
        """Returns the attempt that this rank may join."""
        latest = self._latest.get(name)
        if latest is not None and not latest.met:
            if latest.verdict is None:
                return latest
            if rank not in latest.told:
                latest.told.add(rank)
                raise AttemptFailed(latest.verdict)
        opened = Attempt(name, 0 if latest is None else latest.number + 1, size)
        self._latest[name] = opened
        return opened

    def _joined_as(self, who: Hashable) -> tuple[Attempt, int]:
        if who not in self._joined:
            raise BadRequest("this connection speaks for no rank: it has to join first")
        attempt, rank = self._joined[who]
        if attempt.verdict is not None:
            raise AttemptFailed(attempt.verdict)
        return attempt, rank

    @staticmethod
    def _end(attempt: Attempt, rank: int, verdict: bytes) -> list[Hashable]:
        attempt.verdict = verdict
        attempt.told = set(attempt.connections)
        others = [other for r, other in attempt.connections.items() if r != rank]
        attempt.connections.clear()
        return others
