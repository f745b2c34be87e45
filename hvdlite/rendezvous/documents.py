"""The documents of an elastic job: reports, notices, assignments, requests to leave. Pure.

They are JSON below the key `elastic/` of the store, checked field by field:

    elastic/notice/<k>           DriverNotice, by the driver; k = 1, 2, ...
    elastic/report/<g>/<member>  Report, by a member that wants into generation g; 0: the next one
    elastic/assignment/<g>       Assignment, by the driver: who is in generation g
    elastic/leave/<member>       LeaveRequest: this member leaves at the next boundary
    elastic/leave-host/<member>  LeaveRequest: all members of its host leave; nothing starts there
    elastic/over/<member>        by the driver: it ends the process now, and SIGTERM is no notice
    elastic/generation           by the driver: the number of the latest assignment

A decoder raises Refused and no other exception, whatever the bytes are.
Reports and requests are sealed with the token of the member in their key. `hvdlite leave` finds the
token in the environment of the member's process.
`last_step` decides from the reports what an assignment says of each member's state.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from hvdlite import __version__
from hvdlite.rendezvous import fields as checked
from hvdlite.rendezvous.fields import MOST_BYTES, Fields, Refused, encoded, is_sealed, seal_of

__all__ = ["MOST_BYTES", "Refused"]

NONCE_DIGITS = 32
_REPORT_LABEL = b"hvdlite report 2\n"


class OtherRelease(Refused):
    """The member runs another release of hvdlite than this process."""


class Role(str, Enum):
    """What a member does with its state before its generation trains."""

    KEEP = "keep"  # and puts back what `step()` has kept
    RESTORE = "restore"  # its own copy
    RECEIVE = "receive"  # from the source


class Cause(str, Enum):
    """What an engine accuses another member of."""

    SILENCE = "silence"  # no heartbeat
    OUTAGE = "outage"  # the network between the two
    CLOSED = "closed"  # its connection ended: no accusation, as its engine may end on purpose


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
    broken: bool = False  # its generation ended by an error, not at a boundary
    accused: tuple[Accusation, ...] = ()
    # Settings, tensors and their shapes: what has to be equal on all members (`likeness`).
    alike: tuple[tuple[str, str], ...] = ()
    fingerprints: tuple[tuple[str, str], ...] = ()  # tensor, checksum; those that fit into 1 MiB
    release: str = __version__  # of hvdlite


@dataclass(frozen=True)
class LeavingMember:
    member: int
    seconds: float  # that are left
    reason: str = ""


@dataclass(frozen=True)
class DriverNotice:
    """What the driver tells all members: all that is true now. A later notice replaces it."""

    number: int
    generation: int  # that is running, or forming
    broken: bool = False  # this generation is over: abort its engine
    lost: tuple[int, ...] = ()  # who has broken it
    ready: tuple[int, ...] = ()  # newcomers that wait for the next boundary
    leaving: tuple[LeavingMember, ...] = ()
    stop: bool = False  # all go at the next boundary


@dataclass(frozen=True)
class Entry:
    """A member of a generation."""

    member: int
    host: str
    slot: int
    role: Role
    newcomer: bool = False


@dataclass(frozen=True)
class RankNumbers:
    """The numbers of one rank."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int


@dataclass(frozen=True)
class Assignment:
    """Who is in a generation; `members` are in the order of ranks."""

    generation: int
    members: tuple[Entry, ...]
    position: int  # at which all are once they have their state
    source: int | None = None  # the member that sends its state; None: nothing moves
    answers: int = 0  # the number of the last notice that this assignment answers
    nonce: str = ""  # of the generation's key; the driver puts it in
    patience: int | None = None  # seconds to meet; None: the start timeout

    def with_nonce(self, nonce: str) -> Assignment:
        return replace(self, nonce=nonce)

    def member_numbers(self) -> tuple[int, ...]:
        return tuple(entry.member for entry in self.members)

    def rank_numbers(self) -> dict[int, RankNumbers]:
        """By member. The local rank is the position of the slot among the host's taken ones."""
        return rank_numbers([(entry.member, entry.host, entry.slot) for entry in self.members])


def rank_numbers(ranks: Sequence[tuple[int, str, int]]) -> dict[int, RankNumbers]:
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
        found[member] = RankNumbers(
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
    return seal_of(_REPORT_LABEL, encoded(fields), token)


def _check_seal(fields: Mapping[str, Any], found: str, token: bytes, member: int) -> None:
    if not is_sealed(_REPORT_LABEL, encoded(fields), token, found.encode()):
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


def encode_notice(notice: DriverNotice) -> bytes:
    return encoded({**vars(notice), "leaving": [vars(leaving) for leaving in notice.leaving]})


def decode_notice(data: bytes) -> DriverNotice:
    fields = Fields(data, set(DriverNotice.__dataclass_fields__))
    return DriverNotice(
        number=fields.number("number"),
        generation=fields.number("generation"),
        broken=fields.flag("broken"),
        lost=fields.items("lost", checked.number),
        ready=fields.items("ready", checked.number),
        leaving=fields.items("leaving", _leaving),
        stop=fields.flag("stop"),
    )


def encode_assignment(assignment: Assignment) -> bytes:
    members = [{**vars(entry), "role": entry.role.value} for entry in assignment.members]
    data = encoded({**vars(assignment), "members": members})
    decode_assignment(data)  # or no member could read it
    return data


def decode_assignment(data: bytes) -> Assignment:
    fields = Fields(data, set(Assignment.__dataclass_fields__))
    assignment = Assignment(
        generation=fields.number("generation"),
        members=fields.items("members", _entry),
        position=fields.number("position"),
        source=fields.number_or_none("source"),
        answers=fields.number("answers"),
        nonce=fields.text("nonce"),
        patience=fields.number_or_none("patience"),
    )
    _check_assignment(assignment)
    return assignment


def _check_assignment(assignment: Assignment) -> None:
    roles = {entry.member: entry.role for entry in assignment.members}
    slots = {(entry.host, entry.slot) for entry in assignment.members}
    if not assignment.members or assignment.generation < 1:
        raise Refused("an assignment has members and a generation")
    if len(roles) != len(assignment.members) or len(slots) != len(assignment.members):
        raise Refused("an assignment names a member or a slot twice")
    if assignment.source is None and Role.RECEIVE in roles.values():
        raise Refused("an assignment has members that receive and no source")
    if assignment.source is not None and roles.get(assignment.source) in (None, Role.RECEIVE):
        raise Refused(f"the source, member {assignment.source}, has nothing to send")
    if len(assignment.nonce) != NONCE_DIGITS or not set(assignment.nonce) <= set(
        "0123456789abcdef"
    ):
        raise Refused(f"an assignment's nonce has {NONCE_DIGITS} hexadecimal digits")


def _accusation(value: Any) -> Accusation:
    fields = Fields(checked.mapping(value), {"member", "cause"})
    return Accusation(fields.number("member"), checked.one_of(Cause, fields.text("cause")))


def _pair(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise Refused("expected a name and what it has")
    return checked.text(value[0]), checked.text(value[1])


def _leaving(value: Any) -> LeavingMember:
    fields = Fields(checked.mapping(value), set(LeavingMember.__dataclass_fields__))
    return LeavingMember(fields.number("member"), fields.seconds("seconds"), fields.text("reason"))


def _entry(value: Any) -> Entry:
    fields = Fields(checked.mapping(value), set(Entry.__dataclass_fields__))
    return Entry(
        member=fields.number("member"),
        host=fields.text("host"),
        slot=fields.number("slot"),
        role=checked.one_of(Role, fields.text("role")),
        newcomer=fields.flag("newcomer"),
    )


# What has to be equal on all members before they can form a generation. A newcomer that differs
# would end the operations of all by an error, so it is refused before it is let in.

Pairs = tuple[tuple[str, str], ...]

_MOST_ALIKE_BYTES = 400_000
_MOST_NAME = 500
ALL_OTHERS = "all that follows"


def fitting(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """As much as a report has room for, and a checksum of the rest."""
    found: list[tuple[str, str]] = []
    rest, left, room = hashlib.sha256(), False, _MOST_ALIKE_BYTES
    for name, form in pairs:
        pair = _printable(name), _printable(form)
        room -= 6 * (len(pair[0]) + len(pair[1])) + 10  # as JSON at most
        if room > 0:
            found.append(pair)
        else:
            left = True
            rest.update(repr(pair).encode())
    if left:
        found.append((ALL_OTHERS, rest.hexdigest()))
    return tuple(found)


def difference(newcomer: Report, member: Report) -> str:
    """In words, the first difference between the two; empty if there is none."""
    theirs, ours = dict(newcomer.alike), dict(member.alike)
    for name, form in ours.items():
        if name not in theirs:
            return f"it has no {name}, which the job has"
        if theirs[name] != form:
            return f"{name} is {theirs[name]} there, and {form} in the job"
    more = next((name for name in theirs if name not in ours), None)
    return f"it has {more}, which the job has not" if more is not None else ""


def _printable(text: str) -> str:
    shown = "".join(c if c.isprintable() else "?" for c in text)
    if len(shown) <= _MOST_NAME:
        return shown
    return f"{shown[: _MOST_NAME - 20]}...{hashlib.sha256(shown.encode()).hexdigest()[:16]}"


# Requests of members, or of `hvdlite leave`, to leave at the next boundary.

LEAVE = "leave"
LEAVE_HOST = "leave-host"
OVER = "over"
GENERATION = "generation"

MOST_TEXT = 200
_MOST_REQUEST_BYTES = 4096
_REQUEST_LABEL = b"hvdlite request 1\n"


@dataclass(frozen=True)
class LeaveRequest:
    reason: str = ""
    seconds: float | None = None  # that the members have; None: --leave-seconds


def leave_request(reason: str, seconds: float | None = None) -> LeaveRequest:
    """A request whose reason is one line, whatever the program has given."""
    line = "".join(c if c.isprintable() else " " for c in reason)
    return LeaveRequest(line[:MOST_TEXT], seconds)


def encode_leave_request(request: LeaveRequest, key: str, token: bytes) -> bytes:
    """The value of this key, which is without `elastic/`."""
    fields = vars(request)
    return encoded({**fields, "seal": seal_of(_REQUEST_LABEL, _sealed(key, fields), token)})


def decode_leave_request(data: bytes, key: str, token: bytes, member: int) -> LeaveRequest:
    if len(data) > _MOST_REQUEST_BYTES:
        raise Refused(f"a request has at most {_MOST_REQUEST_BYTES} bytes")
    fields = Fields(data, {*LeaveRequest.__dataclass_fields__, "seal"})
    found = LeaveRequest(fields.text("reason"), fields.seconds_or_none("seconds"))
    if len(found.reason) > MOST_TEXT:
        raise Refused(f"its reason has more than {MOST_TEXT} characters")
    sealed, seal = _sealed(key, vars(found)), fields.text("seal").encode()
    if not is_sealed(_REQUEST_LABEL, sealed, token, seal):
        raise Refused(f"it is not sealed with the token of member {member}")
    return found


def _sealed(key: str, fields: Mapping[str, Any]) -> bytes:
    return f"{key}\n".encode() + encoded(fields)
