"""What the list of past operations tells about tensors, summed up as it goes by. Pure.

Rank 0 keeps one while the job runs, and `hvdlite report` makes one of a timeline. Its size is
bounded, whatever the operations are called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

# Names beyond these are counted together.
_MOST_NAMES = 4096
_SHOWN = 30
OTHERS = "(other tensors)"
# Upper limits of the groups of batches: of one tensor, of up to 4, and so on.
FUSION = (1, 4, 16, 64)
_UNNAMED = re.compile(r"(\.noname)\.\d+")


@dataclass
class Tensor:
    name: str
    operations: int = 0
    bytes: float = 0
    seconds: float = 0  # in flight; those of a batch are shared by its bytes
    waited: float = 0  # between this rank's request and that of the last one

    def add(self, operations: float, size: float, seconds: float, waited: float) -> None:
        self.operations += int(operations)
        self.bytes += size
        self.seconds += seconds
        self.waited += waited


@dataclass
class Overlap:
    """Of whole steps: how long they took, how long batches were in flight in them, and how long
    while later gradients were still to come."""

    steps: float = 0
    moving: float = 0
    hidden: float = 0

    def plus(self, other: Overlap) -> Overlap:
        return Overlap(
            self.steps + other.steps, self.moving + other.moving, self.hidden + other.hidden
        )


@dataclass
class Details:
    operations: int = 0
    bytes: float = 0
    seconds: float = 0
    tensors: list[Tensor] = field(default_factory=list)  # the slowest first
    ways: dict[str, float] = field(default_factory=dict)  # bytes by what has moved them
    dtypes: dict[str, float] = field(default_factory=dict)  # bytes
    fusion: dict[str, float] = field(default_factory=dict)  # batches by how many tensors
    overlap: Overlap = field(default_factory=Overlap)
    versions: dict[str, str] = field(default_factory=dict)
    knobs: dict[str, str] = field(default_factory=dict)
    rank: int = 0  # the one that has seen this

    def encode(self) -> dict[str, Any]:
        return asdict(self)


def decode(found: Mapping[str, Any]) -> Details:
    """The reverse of encode(). Raises ValueError if it is something else."""
    try:
        told = dict(found)
        tensors = [Tensor(**each) for each in told.pop("tensors", [])]
        overlap = Overlap(**told.pop("overlap", {}))
        return Details(**told, tensors=tensors, overlap=overlap)
    except TypeError as error:
        raise ValueError(f"these are no details of a job: {error}") from None


def total(first: Details, second: Details) -> Details:
    """Both together. What has a value at a time is that of the second."""
    tensors = _Tensors()
    for each in (*first.tensors, *second.tensors):
        tensors.of(each.name).add(each.operations, each.bytes, each.seconds, each.waited)
    return Details(
        first.operations + second.operations,
        first.bytes + second.bytes,
        first.seconds + second.seconds,
        tensors.slowest(),
        _added(first.ways, second.ways),
        _added(first.dtypes, second.dtypes),
        _added(first.fusion, second.fusion),
        first.overlap.plus(second.overlap),
        second.versions or first.versions,
        second.knobs or first.knobs,
        second.rank,
    )


def group_of(tensors: int) -> str:
    """Which group of FUSION a batch of so many tensors belongs to."""
    below = 0
    for limit in FUSION:
        if tensors <= limit:
            return str(limit) if limit == below + 1 else f"{below + 1} to {limit}"
        below = limit
    return f"more than {below}"


def groups() -> list[str]:
    """All groups, in their order."""
    return [group_of(limit) for limit in (*FUSION, FUSION[-1] + 1)]


class Tally:
    """Takes lists of past operations as `hvd.recent_operations()` returns them."""

    def __init__(self) -> None:
        self._next = 0  # the number of the first operation that is new
        self._tensors = _Tensors()
        self._sum = Details()

    def take(self, recent: Sequence[Mapping[str, Any]]) -> None:
        """Each operation counts once, however many lists it is in."""
        if not recent:
            return
        new = [each for each in recent if each["number"] >= self._next and not each["failed"]]
        self._next = recent[-1]["number"] + 1
        for batch in _batches(new):
            self._take_batch(batch)
        self._sum.overlap = self._sum.overlap.plus(overlap_of(new))

    def details(self) -> Details:
        self._sum.tensors = self._tensors.slowest()
        return self._sum

    def _take_batch(self, batch: Sequence[Mapping[str, Any]]) -> None:
        size = sum(each["bytes"] for each in batch)
        moving = batch[0]["done"] - batch[0]["agreed"]
        sums = self._sum
        sums.operations += len(batch)
        sums.bytes += size
        sums.seconds += moving
        if not size:  # barriers, and what a rank does not receive
            return
        _count(sums.fusion, group_of(len(batch)), 1)
        for each in batch:
            share = each["bytes"] / size
            self._tensors.of(each["name"]).add(
                1, each["bytes"], moving * share, each["agreed"] - each["submitted"]
            )
            _count(sums.ways, each.get("communicator") or "", each["bytes"])
            _count(sums.dtypes, each.get("dtype") or "", each["bytes"])


class _Tensors:
    """By name; a program may use any number of names."""

    def __init__(self) -> None:
        self._by_name: dict[str, Tensor] = {}

    def of(self, name: str) -> Tensor:
        name = _UNNAMED.sub(r"\1", name)
        if name not in self._by_name and len(self._by_name) >= _MOST_NAMES:
            name = OTHERS
        return self._by_name.setdefault(name, Tensor(name))

    def slowest(self) -> list[Tensor]:
        return sorted(self._by_name.values(), key=lambda tensor: -tensor.seconds)[:_SHOWN]


def overlap_of(recent: Sequence[Mapping[str, Any]]) -> Overlap:
    """Of the whole steps in the list. A step begins where a name returns.

    While a gradient is under way, the next ones are submitted: the last submission at which another
    operation is in flight is the end of the backward pass. A step without one counts as nothing,
    because blocking calls and gradients that are reduced at once look the same.
    """
    found = Overlap()
    steps = list(_steps(recent))
    for step, following in zip(steps[1:], steps[2:], strict=False):
        last = _last_submission(step)
        if last is None:
            continue
        for begin, end in union((each["agreed"], each["done"]) for each in step):
            found.moving += end - begin
            found.hidden += max(0.0, min(end, last) - begin)
        found.steps += following[0]["submitted"] - step[0]["submitted"]
    return found


def _batches(operations: Iterable[Mapping[str, Any]]) -> Iterable[list[Mapping[str, Any]]]:
    """Those that were in flight together; they are neighbours."""

    def key(each: Mapping[str, Any]) -> tuple[Any, ...]:
        return each["process_set"], each["agreed"], each["done"]

    return (list(batch) for _, batch in groupby(operations, key))


def _steps(recent: Sequence[Mapping[str, Any]]) -> Iterable[list[Mapping[str, Any]]]:
    step: list[Mapping[str, Any]] = []
    seen: set[tuple[int, str]] = set()
    for each in sorted(recent, key=lambda each: each["submitted"]):
        name = each["process_set"], each["name"]
        if name in seen:
            yield step
            step, seen = [], set()
        seen.add(name)
        step.append(each)
    if step:
        yield step


def _last_submission(step: Sequence[Mapping[str, Any]]) -> float | None:
    last, busy_until = None, float("-inf")
    for each in step:
        if each["submitted"] < busy_until:
            last = each["submitted"]
        busy_until = max(busy_until, each["done"])
    return last


def union(spans: Iterable[tuple[float, float]]) -> Iterable[tuple[float, float]]:
    """The times that at least one of the spans covers."""
    begin = end = float("-inf")
    for one, other in sorted(spans):
        if one > end:
            if end > begin:
                yield begin, end
            begin, end = one, other
        end = max(end, other)
    if end > begin:
        yield begin, end


def _count(table: dict[str, float], name: str, more: float) -> None:
    table[name] = table.get(name, 0) + more


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}
