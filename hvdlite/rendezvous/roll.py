"""The documents of an elastic job: report, news and roll. Pure.

They are JSON of at most 1 MiB below the key `elastic/` of the store, checked field by field:

    elastic/news/<k>            News, by the driver; k = 1, 2, ...
    elastic/report/<g>/<member> Report, by a member that wants into generation g; 0: into the next
    elastic/roll/<g>            Roll, by the driver: who is in generation g

A decoder raises Refused and no other exception, whatever the bytes are.
`last_step` decides from the reports what a roll says of each member's state.
"""

from __future__ import annotations

import hmac
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

MOST_BYTES = 1 << 20
MOST_MEMBERS = 1 << 16
NONCE_DIGITS = 32
_MOST_NUMBER = 1 << 53
_MOST_SECONDS = 1e9
_MOST_TEXT = 1000
_LABEL = b"hvdlite report 1\n"


class Refused(ValueError):
    """The bytes are no such document, or not of the member that they name."""


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
    fingerprints: tuple[tuple[str, str], ...] = ()  # tensor, checksum; those that fit into 1 MiB


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


def _encoded(fields: Mapping[str, Any]) -> bytes:
    data = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    if len(data) > MOST_BYTES:
        raise Refused(f"{len(data)} bytes are more than the {MOST_BYTES} that are allowed")
    return data


def _report_fields(report: Report) -> dict[str, Any]:
    return {
        **vars(report),
        "accused": [{"member": a.member, "cause": a.cause.value} for a in report.accused],
        "fingerprints": [list(pair) for pair in report.fingerprints],
    }


def _seal(report: Report, token: bytes) -> str:
    """Proves that the member itself has written the report."""
    return hmac.digest(token, _LABEL + _encoded(_report_fields(report)), "sha256").hex()


def encode_report(report: Report, token: bytes) -> bytes:
    return _encoded({**_report_fields(report), "seal": _seal(report, token)})


def decode_report(data: bytes, token: bytes, member: int, generation: int) -> Report:
    """The report that was found below the key of this member and generation."""
    fields = _Fields(data, {*Report.__dataclass_fields__, "seal"})
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
        fingerprints=fields.items("fingerprints", _fingerprint),
    )
    if not hmac.compare_digest(_seal(report, token).encode(), fields.text("seal").encode()):
        raise Refused(f"the report for member {member} is not sealed with its token")
    if (report.member, report.generation) != (member, generation):
        raise Refused(f"a report of member {report.member} lies where member {member}'s belongs")
    return report


def encode_news(news: News) -> bytes:
    return _encoded({**vars(news), "leaving": [vars(leaving) for leaving in news.leaving]})


def decode_news(data: bytes) -> News:
    fields = _Fields(data, set(News.__dataclass_fields__))
    return News(
        number=fields.number("number"),
        generation=fields.number("generation"),
        broken=fields.flag("broken"),
        lost=fields.items("lost", _number),
        ready=fields.items("ready", _number),
        leaving=fields.items("leaving", _leaving),
        stop=fields.flag("stop"),
    )


def encode_roll(roll: Roll) -> bytes:
    members = [{**vars(entry), "part": entry.part.value} for entry in roll.members]
    data = _encoded({**vars(roll), "members": members})
    decode_roll(data)  # or no member could read it
    return data


def decode_roll(data: bytes) -> Roll:
    fields = _Fields(data, set(Roll.__dataclass_fields__))
    roll = Roll(
        generation=fields.number("generation"),
        members=fields.items("members", _entry),
        position=fields.number("position"),
        source=fields.number_or_none("source"),
        answers=fields.number("answers"),
        nonce=fields.text("nonce"),
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


# Decoding. A value of another type is refused, not converted.

_Item = TypeVar("_Item")


class _Fields:
    """The fields of one JSON object."""

    def __init__(self, source: bytes | Mapping[str, Any], names: set[str]) -> None:
        found = _parsed(source) if isinstance(source, bytes) else source
        if not isinstance(found, dict) or found.keys() != names:
            raise Refused(f"expected an object with the fields {', '.join(sorted(names))}")
        self._found = found

    def number(self, name: str) -> int:
        return _number(self._found[name])

    def number_or_none(self, name: str) -> int | None:
        return None if self._found[name] is None else self.number(name)

    def flag(self, name: str) -> bool:
        value = self._found[name]
        if not isinstance(value, bool):
            raise Refused(f"{name} is neither true nor false")
        return value

    def text(self, name: str) -> str:
        return _text(self._found[name])

    def seconds(self, name: str) -> float:
        value = self._found[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refused(f"{name} is not a number of seconds")
        if not 0 <= value <= _MOST_SECONDS:  # nor is NaN between them
            raise Refused(f"{name} is not a number of seconds")
        return float(value)

    def items(self, name: str, read: Callable[[Any], _Item]) -> tuple[_Item, ...]:
        value = self._found[name]
        if not isinstance(value, list) or len(value) > MOST_MEMBERS:
            raise Refused(f"{name} is not a list of at most {MOST_MEMBERS} items")
        return tuple(read(item) for item in value)


def _parsed(data: bytes) -> Any:
    if len(data) > MOST_BYTES:
        raise Refused(f"{len(data)} bytes are more than the {MOST_BYTES} that are allowed")
    try:
        text = data.decode("ascii")
        return json.loads(text, object_pairs_hook=_object, parse_int=_parsed_int)
    except Refused:
        raise
    except (ValueError, RecursionError) as error:
        raise Refused(f"it is not JSON: {type(error).__name__}") from None


def _parsed_int(digits: str) -> int:
    """Python before 3.10.7 takes long for a long number."""
    if len(digits) > len(str(_MOST_NUMBER)):
        raise Refused(f"expected numbers below {_MOST_NUMBER}")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused("an object has a field twice")
    return found


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_NUMBER:
        raise Refused(f"expected a number from 0 to {_MOST_NUMBER - 1}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT or not value.isprintable():
        raise Refused(f"expected printable text of at most {_MOST_TEXT} characters")
    return value


def _accusation(value: Any) -> Accusation:
    fields = _Fields(_mapping(value), {"member", "cause"})
    return Accusation(fields.number("member"), _one_of(Cause, fields.text("cause")))


def _fingerprint(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise Refused("a fingerprint is a tensor's name and a checksum")
    return _text(value[0]), _text(value[1])


def _leaving(value: Any) -> Leaving:
    fields = _Fields(_mapping(value), set(Leaving.__dataclass_fields__))
    return Leaving(fields.number("member"), fields.seconds("seconds"), fields.text("reason"))


def _entry(value: Any) -> Entry:
    fields = _Fields(_mapping(value), set(Entry.__dataclass_fields__))
    return Entry(
        member=fields.number("member"),
        host=fields.text("host"),
        slot=fields.number("slot"),
        part=_one_of(Part, fields.text("part")),
        newcomer=fields.flag("newcomer"),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Refused("expected an object")
    return value


_Choice = TypeVar("_Choice", bound=Enum)


def _one_of(kind: type[_Choice], value: str) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        raise Refused(f"{value!r} is not one of {[each.value for each in kind]}") from None
