"""This process as a member of an elastic job: what it tells the driver, and which roll it follows.

The keys are those of hvdlite.rendezvous.roll and of hvdlite.launch.elastic.events. A member comes
into generation after generation:

    a newcomer   report/0/<member>, then waits for place/<member>, which is a generation's number g
    a survivor   report/<g>/<member>
    both         wait for roll/<g>, bring an engine up, and set in/<g>/<member>

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
from hvdlite.rendezvous.likeness import Pairs
from hvdlite.rendezvous.roll import (
    Accusation,
    Cause,
    Entry,
    Place,
    Report,
    Roll,
    decode_roll,
    encode_report,
)
from hvdlite.rendezvous.seal import seal

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
class Standing:
    """The marks of a state, for a report."""

    position: int = 0
    whole: bool = False
    copy: int | None = None


@dataclass(frozen=True)
class Failure:
    """How a generation has ended. `lost`: the rank that this one accuses."""

    broken: bool = False
    lost: int | None = None
    cause: Cause = Cause.CLOSED


class Member:
    """`connect` opens a connection of its own with the store, for a thread that waits."""

    def __init__(
        self, number: int, slot: int, token: bytes, expected: Place, meets: bool,
        connect: Callable[[], Store],
    ) -> None:  # fmt: skip
        self.number = number
        self.slot = slot
        self.connect = connect
        self.place = expected  # what this process says of itself
        self.roll: Roll | None = None
        self.in_run = False
        self.standing = Standing()
        self.failure = Failure()
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
        if not self._generation or self.roll is None:
            return None
        return self._generation, self.roll.nonce, self.slot, self.roll.patience or 0

    @property
    def entry(self) -> Entry:
        """This member in the roll."""
        assert self.roll is not None
        return self.roll.members[self.place.rank]

    @property
    def source(self) -> int | None:
        """The rank that sends its state; None: nothing moves."""
        assert self.roll is not None
        return None if self.roll.source is None else self.roll.numbers().index(self.roll.source)

    # ---- into the next generation

    def arrive(self) -> Roll | None:
        """Reports, and waits for the next roll; None: the process has to warm up alone.

        Raises PutOut if the roll does not name this member.
        """
        if self._generation == _ALONE:
            generation = self._ask_for_a_place()
            if generation == _ALONE:
                return None
        else:
            generation = self._generation + 1
            self._write(self._report(generation))
        roll = decode_roll(self._store.get(f"elastic/roll/{generation}"))
        places = roll.places()
        if self.number not in places:
            raise PutOut(
                f"hvdlite: the job goes on without this process (member {self.number}): generation "
                f"{generation} does not name it. hvdliterun's output says why."
            )
        with self._lock:  # from now on, news about an older generation are of no interest
            self._generation = generation
            self.roll = roll
            self.place = places[self.number]
        return roll

    def entered(self, abort: Callable[[int, str], None]) -> None:
        """The engine is up. It is aborted if its generation has ended meanwhile."""
        self._say(f"in/{self._generation}/{self.number}")
        self.failure = Failure()
        with self._lock:
            if self._broken >= self._generation:
                abort(self._generation, self._why)

    def end(self, generation: int, why: str, abort: Callable[[int, str], None]) -> None:
        """The driver says that this generation has ended. Called by the thread that reads news."""
        with self._lock:
            if generation > self._broken:
                self._broken, self._why = generation, why
            if generation == self._generation:
                abort(generation, why)

    def has_failed(self, loss: Loss) -> None:
        """An operation, or the meeting, has failed."""
        self.failure = _failure(self.place.rank, loss)

    def trains(self) -> None:
        """This member has the job's state."""
        if self._newcomer:
            self._newcomer = False
            self._say(f"trains/{self.number}")

    def done(self) -> None:
        """The program's function has returned."""
        self._say(f"done/{self.number}")

    def leave(self, standing: Standing) -> None:
        """At a boundary: the job goes on without this member, as it was asked to."""
        self.standing = standing
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
        standing = self.standing
        return Report(
            self.number, generation, standing.position, standing.whole, standing.copy,
            broken=self.failure.broken, accused=self._accused(), alike=self.alike,
            fingerprints=self.fingerprints,
        )  # fmt: skip

    def _accused(self) -> tuple[Accusation, ...]:
        """Of its own rank an engine says how it was ended."""
        lost, members = self.failure.lost, self.roll.numbers() if self.roll else ()
        if lost is None or not 0 <= lost < len(members) or members[lost] == self.number:
            return ()
        return (Accusation(members[lost], self.failure.cause),)

    def _say(self, key: str) -> None:
        self._store.set(f"elastic/{key}", seal(key, self.token))

    def _write(self, report: Report) -> None:
        data = encode_report(report, self.token)
        self._store.set(f"elastic/report/{report.generation}/{self.number}", data)


def _failure(me: int, loss: Loss) -> Failure:
    """Two ranks with a network between them that does not work accuse each other; nobody else knows
    which of them it is."""
    lost, *more = loss.ranks or (None,)
    if loss.cause == LossCause.NETWORK and more:
        noticed, unreached = more[0], {lost, *more[1:]}
        if me != noticed:
            lost = noticed if me in unreached else None
        return Failure(True, lost, Cause.OUTAGE)
    return Failure(True, lost, _CAUSES.get(loss.cause, Cause.CLOSED))


_member: Member | None = None


def is_asked_for(environ: Mapping[str, str]) -> bool:
    """Whether the driver of an elastic job has started this process."""
    return environ.get(_ELASTIC) == "1" and bool(environ.get(MEMBER))


def member() -> Member | None:
    """This process's membership, once hvd.init() has been called in an elastic job."""
    return _member


def become(identity: environment.Identity) -> Member:
    """The one membership of this process."""
    global _member
    if _member is None:
        _member = _from_environment(os.environ, identity)
    return _member


def _from_environment(environ: Mapping[str, str], identity: environment.Identity) -> Member:
    missing = [name for name in (MEMBER, SLOT, TOKEN, MEETS) if not environ.get(name)]
    if missing or identity.place is None:
        lacks = ", ".join(missing) or "the store's address or secret"
        raise ValueError(f"{_ELASTIC}=1 and {MEMBER} are set without {lacks}: hvdliterun sets all.")
    token = bytes.fromhex(environ[TOKEN])
    if len(token) != _TOKEN_BYTES:
        raise ValueError(f"{TOKEN} has to be {2 * _TOKEN_BYTES} hex digits.")
    address, secret = identity.place
    return Member(
        number=int(environ[MEMBER]),
        slot=int(environ[SLOT]),
        token=token,
        expected=_expected(identity),
        meets=environ[MEETS] == "1",
        connect=lambda: StoreClient(address, secret),
    )


def _expected(identity: environment.Identity) -> Place:
    return Place(
        identity.rank, identity.size, identity.local_rank or 0, identity.local_size or 1,
        identity.cross_rank or 0, identity.cross_size or 1,
    )  # fmt: skip
