"""The documents of an elastic job: report, news and roll. Pure.

They are JSON of at most 1 MiB below the key `elastic/` of the store, checked field by field:

    elastic/news/<k>            News, by the driver; k = 1, 2, ...
    elastic/report/<g>/<member> Report, by a member that wants into generation g; 0: into the next
    elastic/roll/<g>            Roll, by the driver: who is in generation g

A decoder raises Refused and no other exception, whatever the bytes are.
`last_step` decides from the reports what a roll says of each member's state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from hvdlite import __version__
from hvdlite.rendezvous import fields as checked
from hvdlite.rendezvous import seal
from hvdlite.rendezvous.fields import MOST_BYTES, Fields, Refused, encoded

__all__ = ["MOST_BYTES", "Refused"]

NONCE_DIGITS = 32
_LABEL = b"hvdlite report 2\n"


class OtherRelease(Refused):
    """The member runs another release of hvdlite than this process."""


class Part(str, Enum):
    """What a member does with its state before its generation trains."""

    KEEP = "keep"  # and puts back what `step()` has kept
    RESTORE = "restore"  # its own copy
    RECEIVE = "receive"  # from the source


class Cause(str, Enum):
    """What an engine accuses another member of."""

    SILENCE = "silence"  # no heartbeat
    OUTAGE = "outage"  # the network between the two
    CLOSED = "closed"  # its connection has ended; no accusation, its engine may have been ended


@dataclass(frozen=True)
class Accusation:
    member: int
    cause: Cause


@dataclass(frozen=True)
class Report:
    """What a member says of itself before a generation."""

    member: int
    generation: int  # into which it wants; 0: a newcomer, into the next
    position: int = 0  # how many boundaries lie behind it
    whole: bool = False  # whether its state is that of its position
    copy: int | None = None  # the position of its copy
    newcomer: bool = False  # it has never had the job's state
    meets: bool = False  # a newcomer that waits in `init()`, not in `run`
    leaves: bool = False
    broken: bool = False  # its generation has ended by an error, not at a boundary
    accused: tuple[Accusation, ...] = ()
    # Settings, tensors and their shapes: what has to be equal on all members (`likeness`).
    alike: tuple[tuple[str, str], ...] = ()
    fingerprints: tuple[tuple[str, str], ...] = ()  # tensor, checksum; those that fit into 1 MiB
    release: str = __version__  # of hvdlite


@dataclass(frozen=True)
class Leaving:
    member: int
    seconds: float  # that are left
    reason: str = ""


@dataclass(frozen=True)
class News:
    """Each news says all that is true when it is told; a later one replaces it."""

    number: int
    generation: int  # that is running, or forming
    broken: bool = False  # this generation has ended: abort its engine
    lost: tuple[int, ...] = ()  # who has broken it
    ready: tuple[int, ...] = ()  # newcomers that wait for the next boundary
    leaving: tuple[Leaving, ...] = ()
    stop: bool = False  # all go at the next boundary


@dataclass(frozen=True)
class Entry:
    """A member of a generation."""

    member: int
    host: str
    slot: int
    part: Part
    newcomer: bool = False


@dataclass(frozen=True)
class Place:
    """The numbers of one rank."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int


@dataclass(frozen=True)
class Roll:
    """Who is in a generation; `members` are in the order of ranks."""

    generation: int
    members: tuple[Entry, ...]
    position: int  # at which all are once they have their state
    source: int | None = None  # the member that sends its state; None: nothing moves
    answers: int = 0  # the number of the last news that this roll answers
    nonce: str = ""  # of the generation's key; the driver puts it in
    patience: int | None = None  # seconds to meet; None: the start timeout

    def with_nonce(self, nonce: str) -> Roll:
        return replace(self, nonce=nonce)

    def numbers(self) -> tuple[int, ...]:
        return tuple(entry.member for entry in self.members)

    def places(self) -> dict[int, Place]:
        """By member. The local rank is the position of the slot among the host's taken ones."""
        return places([(entry.member, entry.host, entry.slot) for entry in self.members])


def places(ranks: Sequence[tuple[int, str, int]]) -> dict[int, Place]:
    """By member, the numbers of `ranks`: member, host and slot, in the order of ranks."""
    slots: dict[str, list[int]] = {}
    for _, host, slot in ranks:
        slots.setdefault(host, []).append(slot)
    order = {host: {slot: n for n, slot in enumerate(sorted(its))} for host, its in slots.items()}
    # "Across" are the ranks with one local rank on the hosts that have it, in the order of hosts.
    across = Counter(local for its in order.values() for local in its.values())
    before: Counter[int] = Counter()
    cross_rank: dict[tuple[str, int], int] = {}
    for host, its in order.items():
        for local in its.values():
            cross_rank[host, local] = before[local]
            before[local] += 1
    found = {}
    for rank, (member, host, slot) in enumerate(ranks):
        local = order[host][slot]
        found[member] = Place(
            rank,
            size=len(ranks),
            local_rank=local,
            local_size=len(order[host]),
            cross_rank=cross_rank[host, local],
            cross_size=across[local],
        )
    return found


# Encoding. Every document has all fields of its class, and no other.


def _report_fields(report: Report) -> dict[str, Any]:
    return {
        **vars(report),
        "accused": [{"member": a.member, "cause": a.cause.value} for a in report.accused],
        "alike": [list(pair) for pair in report.alike],
        "fingerprints": [list(pair) for pair in report.fingerprints],
    }


def _seal(fields: Mapping[str, Any], token: bytes) -> str:
    """Proves that the member itself has written the report with these fields."""
    return seal.made(_LABEL, encoded(fields), token)


def _check_seal(fields: Mapping[str, Any], found: str, token: bytes, member: int) -> None:
    if not seal.fits(_LABEL, encoded(fields), token, found.encode()):
        raise Refused(f"the report for member {member} is not sealed with its token")


def encode_report(report: Report, token: bytes) -> bytes:
    fields = _report_fields(report)
    return encoded({**fields, "seal": _seal(fields, token)})


def decode_report(data: bytes, token: bytes, member: int, generation: int) -> Report:
    """The report that was found below the key of this member and generation.

    Raises OtherRelease if it is sealed, but has the fields of another release.
    """
    found = checked.parsed(data)
    _check_release(found, token, member)
    fields = Fields(found, {*Report.__dataclass_fields__, "seal"})
    report = Report(
        member=fields.number("member"),
        generation=fields.number("generation"),
        position=fields.number("position"),
        whole=fields.flag("whole"),
        copy=fields.number_or_none("copy"),
        newcomer=fields.flag("newcomer"),
        meets=fields.flag("meets"),
        leaves=fields.flag("leaves"),
        broken=fields.flag("broken"),
        accused=fields.items("accused", _accusation),
        alike=fields.items("alike", _pair),
        fingerprints=fields.items("fingerprints", _pair),
        release=fields.text("release"),
    )
    _check_seal(_report_fields(report), fields.text("seal"), token, member)
    if report.member != member:
        raise Refused(f"a report of member {report.member} lies where member {member}'s belongs")
    if report.generation != generation:
        raise Refused(f"it is a report of another generation, {report.generation}")
    return report


def _check_release(found: Any, token: bytes, member: int) -> None:
    release = found.get("release") if isinstance(found, dict) else None
    if not isinstance(release, str) or release == __version__:
        return
    fields = {name: value for name, value in found.items() if name != "seal"}
    _check_seal(fields, checked.text(found.get("seal")), token, member)
    raise OtherRelease(
        f"it runs hvdlite {checked.text(release)}, and hvdliterun runs hvdlite {__version__}"
    )


def encode_news(news: News) -> bytes:
    return encoded({**vars(news), "leaving": [vars(leaving) for leaving in news.leaving]})


def decode_news(data: bytes) -> News:
    fields = Fields(data, set(News.__dataclass_fields__))
    return News(
        number=fields.number("number"),
        generation=fields.number("generation"),
        broken=fields.flag("broken"),
        lost=fields.items("lost", checked.number),
        ready=fields.items("ready", checked.number),
        leaving=fields.items("leaving", _leaving),
        stop=fields.flag("stop"),
    )


def encode_roll(roll: Roll) -> bytes:
    members = [{**vars(entry), "part": entry.part.value} for entry in roll.members]
    data = encoded({**vars(roll), "members": members})
    decode_roll(data)  # or no member could read it
    return data


def decode_roll(data: bytes) -> Roll:
    fields = Fields(data, set(Roll.__dataclass_fields__))
    roll = Roll(
        generation=fields.number("generation"),
        members=fields.items("members", _entry),
        position=fields.number("position"),
        source=fields.number_or_none("source"),
        answers=fields.number("answers"),
        nonce=fields.text("nonce"),
        patience=fields.number_or_none("patience"),
    )
    _check_roll(roll)
    return roll


def _check_roll(roll: Roll) -> None:
    parts = {entry.member: entry.part for entry in roll.members}
    slots = {(entry.host, entry.slot) for entry in roll.members}
    if not roll.members or roll.generation < 1:
        raise Refused("a roll has members and a generation")
    if len(parts) != len(roll.members) or len(slots) != len(roll.members):
        raise Refused("a roll names a member or a slot twice")
    if roll.source is None and Part.RECEIVE in parts.values():
        raise Refused("a roll has members that receive and no source")
    if roll.source is not None and parts.get(roll.source) in (None, Part.RECEIVE):
        raise Refused(f"the source, member {roll.source}, has nothing to send")
    if len(roll.nonce) != NONCE_DIGITS or not set(roll.nonce) <= set("0123456789abcdef"):
        raise Refused(f"a roll's nonce has {NONCE_DIGITS} hexadecimal digits")


def _accusation(value: Any) -> Accusation:
    fields = Fields(checked.mapping(value), {"member", "cause"})
    return Accusation(fields.number("member"), checked.one_of(Cause, fields.text("cause")))


def _pair(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise Refused("expected a name and what it has")
    return checked.text(value[0]), checked.text(value[1])


def _leaving(value: Any) -> Leaving:
    fields = Fields(checked.mapping(value), set(Leaving.__dataclass_fields__))
    return Leaving(fields.number("member"), fields.seconds("seconds"), fields.text("reason"))


def _entry(value: Any) -> Entry:
    fields = Fields(checked.mapping(value), set(Entry.__dataclass_fields__))
    return Entry(
        member=fields.number("member"),
        host=fields.text("host"),
        slot=fields.number("slot"),
        part=checked.one_of(Part, fields.text("part")),
        newcomer=fields.flag("newcomer"),
    )
