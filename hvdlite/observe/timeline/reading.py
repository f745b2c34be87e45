"""A rank's timeline (HVDLITE_TIMELINE, csrc/engine/observe/timeline.h). Pure: text in, trace out.

Times are in microseconds since the rank's timeline began.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hvdlite.base import untrusted

Event = dict[str, Any]
# What all ranks call an operation: its process set, the number of the decision, and its name.
Key = tuple[int, int, str]

_MOST_RANKS = 1 << 20
_MOST_LANES = 1 << 32
_LONGEST = 1e15  # microseconds: 30 years
_LATEST = 2e17  # microseconds since 1970
_LARGEST = 1 << 60  # bytes
_NEGOTIATES = "NEGOTIATE_"
_WIDTH = re.compile(r"(\d+)$")


@dataclass
class TimelineOperation:
    name: str
    lane: int
    opened: float
    asked: float | None = None  # none: the rank had joined
    began: float | None = None  # the ranks had agreed
    ended: float | None = None
    kind: str = ""  # ALLREDUCE, BROADCAST, ...
    transport: str = ""  # what has moved it: shm, net, ...
    dtype: str = ""  # of its tensor, and how many numbers
    numbers: int = 0
    key: Key | None = None  # none: the operation was not completed

    @property
    def bytes(self) -> int:
        width = _WIDTH.search(self.dtype)
        return self.numbers * (int(width[1]) // 8 if width else 1)


@dataclass(frozen=True)
class Clock:
    """When the timeline began. Ranks with the same `boot` share the monotonic clock."""

    epoch: float  # microseconds, by the wall clock
    boot: str = ""
    monotonic: float = 0.0  # microseconds


@dataclass(frozen=True)
class Trace:
    rank: int
    clock: Clock
    events: list[Event]  # of this rank itself
    operations: list[TimelineOperation] = field(default_factory=list)


def read(text: str) -> Trace:
    """Raises ValueError if the text is not a rank's timeline."""
    events = events_of(text)
    rank, clock = _origin(events)
    mine = [event for event in events if event.get("pid") == rank]
    return Trace(rank, clock, mine, operations(mine))


def events_of(text: str) -> list[Event]:
    """The events of a Chrome trace. A job that was killed may have left half an event at the
    end."""
    for candidate in (text, text[: text.rfind("},\n") + 1] + "]"):
        try:
            found = untrusted.parsed(candidate)
        except ValueError:
            continue
        events = found.get("traceEvents") if isinstance(found, dict) else found
        if isinstance(events, list) and all(isinstance(event, dict) for event in events):
            check(events)
            return events
        break
    raise ValueError("this is not a timeline: it is not a list of events in JSON")


def check(events: Sequence[Event]) -> None:
    """Raises ValueError if one of them has what no timeline has: timelines come from other
    people."""
    for number, event in enumerate(events):
        wrong = next((name for name, good in _good(event) if not good), None)
        if wrong is not None:
            raise ValueError(f"this is not a timeline: {wrong} of event {number} is none")


def _good(event: Event) -> Iterator[tuple[str, bool]]:
    """Whether each field is one of a timeline."""
    phase, args = event.get("ph", ""), event.get("args", {})
    yield "ph", isinstance(phase, str)
    yield "name", isinstance(event.get("name", None if phase in ("B", "X") else ""), str)
    yield (
        "ts",
        untrusted.is_number(
            event.get("ts", None if phase in ("B", "E", "X") else 0), -_LONGEST, _LONGEST
        ),
    )
    yield "dur", untrusted.is_number(event.get("dur", 0))
    yield "pid", untrusted.is_whole(event.get("pid", 0), 0, _MOST_RANKS)
    yield "tid", untrusted.is_whole(event.get("tid", 0), 0, _MOST_LANES)
    yield "args", isinstance(args, dict)
    for name in ("shape", "dtype", "boot"):
        yield name, isinstance(args.get(name, ""), str) and len(args.get(name, "")) < 1000
    if "decision" in args:
        for name in ("set", "decision"):
            yield name, untrusted.is_whole(args.get(name), 0, 1 << 63)
    if "monotonic_nanoseconds" in args:
        yield "pid", "pid" in event
        yield "monotonic_nanoseconds", untrusted.is_number(args["monotonic_nanoseconds"])
        since = args.get("start_time_since_epoch_in_micros")
        yield "start_time_since_epoch_in_micros", untrusted.is_number(since, 0, _LATEST)


def _origin(events: Sequence[Event]) -> tuple[int, Clock]:
    for event in events:
        args = event.get("args", {})
        if event.get("name") == "process_name" and "monotonic_nanoseconds" in args:
            clock = Clock(
                float(args["start_time_since_epoch_in_micros"]),
                args.get("boot", ""),
                args["monotonic_nanoseconds"] / 1e3,
            )
            return event["pid"], clock
    raise ValueError(
        "this is not a timeline of this version of hvdlite: no rank's clock is in it. Record it "
        "again with HVDLITE_TIMELINE_RANKS=all"
    )


def operations(events: Sequence[Mapping[str, Any]]) -> list[TimelineOperation]:
    """What the rank that wrote these events performed, in the order of its ends, and behind that
    what is still open."""
    open_: dict[int, tuple[TimelineOperation, int]] = {}  # by lane, with the depth of its phases
    ended = []
    for event in events:
        phase, lane = event.get("ph"), event.get("tid", 0)
        if phase == "B":
            operation, depth = open_.get(lane, (None, 0))
            if operation is None:
                operation = TimelineOperation(event["name"], lane, event["ts"])
            elif depth == 1 and not event["name"].startswith(_NEGOTIATES):
                operation.began, operation.kind = event["ts"], event["name"]
            elif depth == 2 and operation.kind:
                operation.transport = event["name"].removesuffix(f"_{operation.kind}").lower()
            open_[lane] = (operation, depth + 1)
        elif lane not in open_:
            continue
        elif phase == "X" and event["name"] == str(event["pid"]):
            open_[lane][0].asked = event["ts"]
        elif phase == "E":
            operation, depth = open_[lane]
            _learn(operation, event.get("args", {}))
            open_[lane] = (operation, depth - 1)
            if depth == 1:
                operation.ended = event["ts"]
                ended.append(operation)
                del open_[lane]
    return ended + [operation for operation, _ in open_.values()]


def _learn(operation: TimelineOperation, args: Mapping[str, Any]) -> None:
    if "shape" in args:
        operation.dtype = args.get("dtype", "")
        operation.numbers = math.prod(int(n) for n in re.findall(r"\d+", args["shape"]))
        if operation.bytes > _LARGEST:
            raise ValueError(
                f"this is not a timeline: no tensor has {args['dtype']} {args['shape']}"
            )
    if "decision" in args:
        operation.key = (args["set"], args["decision"], operation.name)
