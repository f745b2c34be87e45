"""This process as a member of an elastic job: what it tells the driver, and what it is assigned.

The keys are those of hvdlite.rendezvous.documents and of hvdlite.launch.elastic.events. A member
comes into generation after generation:

    a newcomer   report/0/<member>, then waits for place/<member>, which is a generation's number g
    a survivor   report/<g>/<member>
    both         wait for assignment/<g>, bring an engine up, and set in/<g>/<member>

What a member writes is sealed with its token.

The place "0" tells a newcomer in `init()` that the job trains already. It warms up alone until
`run`, deletes that answer, and reports again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from hvdlite.exceptions import Cause as LossCause
from hvdlite.exceptions import Loss
from hvdlite.launch import environment
from hvdlite.rendezvous import StoreClient
from hvdlite.rendezvous.documents import (
    Accusation,
    Assignment,
    Cause,
    Entry,
    Pairs,
    RankNumbers,
    Report,
    decode_assignment,
    encode_report,
)
from hvdlite.rendezvous.fields import sealed_key

MEMBER = "HVDLITE_MEMBER"
SLOT = "HVDLITE_SLOT"
TOKEN = "HVDLITE_MEMBER_TOKEN"
MEETS = "HVDLITE_MEMBER_MEETS"
_ELASTIC = "HVDLITE_ELASTIC"
_TOKEN_BYTES = 32
_CAUSES: dict[int, Cause] = {LossCause.SILENT: Cause.SILENCE, LossCause.NETWORK: Cause.OUTAGE}
_ALONE = 0  # the generation of a newcomer that warms up


class Store(Protocol):
    """What a member asks of the job's store."""

    def set(self, key: str, value: bytes) -> None: ...
    def get(self, key: str, timeout: float | None = None) -> bytes: ...
    def delete(self, key: str) -> None: ...
    def close(self) -> None: ...


class PutOut(SystemExit):
    """The job goes on without this process, which ends well: its exit status is 0."""

    def __init__(self, why: str) -> None:
        super().__init__(0)
        self.why = why


@dataclass(frozen=True)
class StateProgress:
    """The marks of a state, for a report."""

    position: int = 0
    whole: bool = False
    copy: int | None = None


@dataclass(frozen=True)
class GenerationFailure:
    """How a generation has ended. `lost`: the rank that this one accuses."""

    broken: bool = False
    lost: int | None = None
    cause: Cause = Cause.CLOSED


class Membership:
    """`connect` opens a connection of its own with the store, for a thread that waits."""

    def __init__(
        self, number: int, slot: int, token: bytes, expected: RankNumbers, meets: bool,
        connect: Callable[[], Store],
    ) -> None:  # fmt: skip
        self.number = number
        self.slot = slot
        self.connect = connect
        self.numbers = expected  # what this process says of itself
        self.assignment: Assignment | None = None
        self.in_run = False
        self.progress = StateProgress()
        self.failure = GenerationFailure()
        self.alike: Pairs = ()  # settings and tensors that have to be equal on all members
        self.fingerprints: Pairs = ()  # of the tensors, if the state is whole
        self.token = token
        self._meets = meets
        self._store = connect()
        self._newcomer = True  # until it has had the job's state
        self._lock = threading.Lock()
        self._generation = _ALONE
        self._broken = -1  # the latest generation that is known to have ended
        self._why = ""

    @property
    def generation(self) -> int:
        """0 while the process warms up."""
        return self._generation

    @property
    def proof(self) -> tuple[int, str, int, int] | None:
        """What the core proves to the others of the generation, and how many seconds they have to
        meet, if fewer than the start timeout. None while the process warms up."""
        if not self._generation or self.assignment is None:
            return None
        return self._generation, self.assignment.nonce, self.slot, self.assignment.patience or 0

    @property
    def entry(self) -> Entry:
        """This member in the assignment."""
        assert self.assignment is not None
        return self.assignment.members[self.numbers.rank]

    @property
    def source(self) -> int | None:
        """The rank that sends its state; None: nothing moves."""
        assert self.assignment is not None
        return (
            None
            if self.assignment.source is None
            else self.assignment.member_numbers().index(self.assignment.source)
        )

    # ---- into the next generation

    def arrive(self) -> Assignment | None:
        """Reports, and waits for the next assignment; None: the process has to warm up alone.

        Raises PutOut if the assignment does not name this member.
        """
        if self._generation == _ALONE:
            generation = self._ask_for_a_place()
            if generation == _ALONE:
                return None
        else:
            generation = self._generation + 1
            self._write(self._report(generation))
        assignment = decode_assignment(self._store.get(f"elastic/assignment/{generation}"))
        numbers = assignment.rank_numbers()
        if self.number not in numbers:
            raise PutOut(
                f"hvdlite: the job goes on without this process (member {self.number}): generation "
                f"{generation} does not name it. hvdliterun's output says why."
            )
        with self._lock:  # from now on, a notice about an older generation is of no interest
            self._generation = generation
            self.assignment = assignment
            self.numbers = numbers[self.number]
        return assignment

    def entered(self, abort: Callable[[int, str], None]) -> None:
        """The engine is up. It is aborted if its generation has ended meanwhile."""
        self._say(f"in/{self._generation}/{self.number}")
        self.failure = GenerationFailure()
        with self._lock:
            if self._broken >= self._generation:
                abort(self._generation, self._why)

    def end(self, generation: int, why: str, abort: Callable[[int, str], None]) -> None:
        """The driver says that this generation has ended. Called by the notices' thread."""
        with self._lock:
            if generation > self._broken:
                self._broken, self._why = generation, why
            if generation == self._generation:
                abort(generation, why)

    def has_failed(self, loss: Loss) -> None:
        """An operation, or the rendezvous, has failed."""
        self.failure = _failure(self.numbers.rank, loss)

    def trains(self) -> None:
        """This member has the job's state."""
        if self._newcomer:
            self._newcomer = False
            self._say(f"trains/{self.number}")

    def done(self) -> None:
        """The program's function has returned."""
        self._say(f"done/{self.number}")

    def leave(self, progress: StateProgress) -> None:
        """At a boundary: the job goes on without this member, as it was asked to."""
        self.progress = progress
        self._write(replace(self._report(self._generation + 1), leaves=True))

    # ---- reports

    def _ask_for_a_place(self) -> int:
        meets = self._meets and not self.in_run
        key = f"elastic/place/{self.number}"
        if self.in_run and self._meets:
            self._store.delete(key)  # the answer that sent it to warm up
        if self.in_run or meets:
            self._write(Report(self.number, 0, newcomer=True, meets=meets, alike=self.alike))
            return int(self._store.get(key))
        return _ALONE

    def _report(self, generation: int) -> Report:
        if self._newcomer:
            return Report(
                self.number,
                generation,
                newcomer=True,
                meets=not self.in_run,
                broken=self.failure.broken,
                accused=self._accused(),
                alike=self.alike,
            )
        progress = self.progress
        return Report(
            self.number, generation, progress.position, progress.whole, progress.copy,
            broken=self.failure.broken, accused=self._accused(), alike=self.alike,
            fingerprints=self.fingerprints,
        )  # fmt: skip

    def _accused(self) -> tuple[Accusation, ...]:
        """Of its own rank an engine says how it was ended."""
        lost, members = (
            self.failure.lost,
            self.assignment.member_numbers() if self.assignment else (),
        )
        if lost is None or not 0 <= lost < len(members) or members[lost] == self.number:
            return ()
        return (Accusation(members[lost], self.failure.cause),)

    def _say(self, key: str) -> None:
        self._store.set(f"elastic/{key}", sealed_key(key, self.token))

    def _write(self, report: Report) -> None:
        data = encode_report(report, self.token)
        self._store.set(f"elastic/report/{report.generation}/{self.number}", data)


def _failure(me: int, loss: Loss) -> GenerationFailure:
    """Two ranks with a network between them that does not work accuse each other; no other rank
    knows which of them it is."""
    lost, *more = loss.ranks or (None,)
    if loss.cause == LossCause.NETWORK and more:
        noticed, unreached = more[0], {lost, *more[1:]}
        if me != noticed:
            lost = noticed if me in unreached else None
        return GenerationFailure(True, lost, Cause.OUTAGE)
    return GenerationFailure(True, lost, _CAUSES.get(loss.cause, Cause.CLOSED))


_member: Membership | None = None


def is_asked_for(environ: Mapping[str, str]) -> bool:
    """Whether the driver of an elastic job has started this process."""
    return environ.get(_ELASTIC) == "1" and bool(environ.get(MEMBER))


def member() -> Membership | None:
    """This process's membership, once hvd.init() has been called in an elastic job."""
    return _member


def become(identity: environment.Identity) -> Membership:
    """The one membership of this process."""
    global _member
    if _member is None:
        _member = _from_environment(os.environ, identity)
    return _member


def _from_environment(environ: Mapping[str, str], identity: environment.Identity) -> Membership:
    missing = [name for name in (MEMBER, SLOT, TOKEN, MEETS) if not environ.get(name)]
    if missing or identity.place is None:
        lacks = ", ".join(missing) or "the store's address or secret"
        raise ValueError(f"{_ELASTIC}=1 and {MEMBER} are set without {lacks}: hvdliterun sets all.")
    token = bytes.fromhex(environ[TOKEN])
    if len(token) != _TOKEN_BYTES:
        raise ValueError(f"{TOKEN} has to be {2 * _TOKEN_BYTES} hex digits.")
    address, secret = identity.place
    return Membership(
        number=int(environ[MEMBER]),
        slot=int(environ[SLOT]),
        token=token,
        expected=_expected(identity),
        meets=environ[MEETS] == "1",
        connect=lambda: StoreClient(address, secret),
    )


def _expected(identity: environment.Identity) -> RankNumbers:
    return RankNumbers(
        identity.rank, identity.size, identity.local_rank or 0, identity.local_size or 1,
        identity.cross_rank or 0, identity.cross_size or 1,
    )  # fmt: skip
