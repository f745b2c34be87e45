"""Up to three sentences that say what to do. Pure.

Each rule says nothing unless the numbers carry it: it needs enough time, enough steps and a share
of the time that is worth a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hvdlite.observe.report import words
from hvdlite.observe.report.details import OTHERS, Details, Tensor, group_of
from hvdlite.observe.report.facts import Facts

MOST = 3
# A job that was shorter tells how it started, and not how it runs.
_LEAST_SECONDS = 5.0
_LEAST_OPERATIONS = 100
# A gain below this share of the time is not worth a sentence.
_WORTH = 0.05
_WAITING = 0.10
_TAKEN = 0.25
_BEYOND_AVERAGE = 1.5
_MOST_OF_IT = 0.5  # of all waiting, for one rank
_EVEN = 0.20
_TENSOR = 0.15
_SMALL_BYTES = 64 << 10
_SMALL_BUSY = 0.10
_LARGE_BYTES = 1 << 20
_IN_FULL = 0.20
_HALVED = ("float32", "float64")
_MOST_BYTES = 0.9
# Inside a host no compression pays: shared memory is faster than any.
_WITHIN_A_HOST = {"shm", "self"}


@dataclass(frozen=True)
class Finding:
    """`share`: how much of the time it is about; the largest come first."""

    share: float
    text: str
    advice: str


def findings(facts: Facts) -> list[Finding]:
    """What to do first, second and third; often nothing."""
    if not tells_enough(facts):
        return []
    found = [finding for rule in _RULES for finding in rule(facts)]
    # What others do to the host makes all other numbers worse.
    first = list(_taken_by_others(facts))
    return [*first, *sorted(found, key=lambda finding: -finding.share)][:MOST]


def tells_enough(facts: Facts) -> bool:
    """Whether the job was long enough."""
    return facts.active >= _LEAST_SECONDS and facts.sum.operations >= _LEAST_OPERATIONS


def _taken_by_others(facts: Facts) -> Iterator[Finding]:
    shares = [(min(1.0, seconds / facts.active), taken) for seconds, taken in facts.taken]
    told = [(share, taken) for share, taken in shares if share >= _TAKEN]
    if not told:
        return
    share, first = told[0]
    more = f" So it is on {len(told) - 1} more of the hosts." if len(told) > 1 else ""
    yield Finding(
        share,
        first.sentence,
        f"End those programs or move the job, before anything else: all other numbers here are "
        f"those of a host that the ranks share.{more}",
    )


def _waits_for_one(facts: Facts) -> Iterator[Finding]:
    shares = _shares(facts)
    if not shares:
        return
    rank = max(shares, key=lambda each: shares[each])
    share = shares[rank]
    if not _stands_out(share, shares):
        return
    host = facts.host(rank)
    others = [each for each in facts.hosts if each != rank and facts.host(each) == host]
    where = f" on {host}" if host and facts.several_hosts else ""
    advice = "Compare its data, its input pipeline and its processor with those of the others"
    if others:
        like = [each for each in others if shares.get(each, 0) > _BEYOND_AVERAGE * _mean(shares)]
        if where and len(like) == len(others):
            advice = f"All ranks on {host} come late, so look at that host"
    yield Finding(
        share, f"{words.percent(share)} of the time operations wait for rank {rank}{where}.",
        f"{advice}.",
    )  # fmt: skip


def _waits_for_all(facts: Facts) -> Iterator[Finding]:
    shares = _shares(facts)
    together = sum(shares.values())
    if len(shares) < 2 or together < _EVEN:
        return
    if _stands_out(max(shares.values()), shares):
        return
    yield Finding(
        together,
        f"{words.percent(together)} of the time operations wait for some rank, and no rank stands "
        "out.",
        "The steps of all ranks are uneven: batches of one size, or more loader processes for each "
        "rank, make them alike.",
    )


def _one_tensor(facts: Facts) -> Iterator[Finding]:
    seen = facts.details
    if seen is None or seen.seconds <= 0 or seen.operations < _LEAST_OPERATIONS:
        return
    named = [tensor for tensor in seen.tensors if tensor.name != OTHERS]
    if len(named) < 3:  # of two tensors, each takes much
        return
    first = max(named, key=lambda tensor: tensor.seconds)
    share = first.seconds / seen.seconds
    of_the_time = share * moving_share(facts)
    if share < _TENSOR or of_the_time < _WORTH:
        return
    yield Finding(
        of_the_time,
        f"{first.name} alone takes {words.percent(share)} of the communication.",
        _about(first, seen),
    )


def _about(tensor: Tensor, seen: Details) -> str:
    mean = tensor.bytes / max(1, tensor.operations)
    if mean <= _SMALL_BYTES:
        return (
            f"It has only {words.size(mean)}, so its time is that of messages and not of bytes: "
            "use it less often."
        )
    share = tensor.bytes / seen.bytes
    said = f"It has {words.size(mean)}, {words.percent(share)} of all bytes."
    if share < _MOST_BYTES * tensor.seconds / seen.seconds:
        return said
    return f"{said} If it is an embedding, sparse gradients send only the rows that were used."


def _small_batches(facts: Facts) -> Iterator[Finding]:
    sums, seen = facts.sum, facts.details
    if seen is None or not seen.operations or not sums.batches:
        return
    alone = seen.fusion.get(group_of(1), 0)
    mean = seen.bytes / seen.operations
    busy = moving_share(facts)
    if alone < _MOST_BYTES * sum(seen.fusion.values()) or mean > _SMALL_BYTES or busy < _SMALL_BUSY:
        return
    yield Finding(
        busy,
        f"Nearly all tensors travel alone, and have {words.size(mean)} on average; that takes "
        f"{words.percent(busy)} of the time.",
        "Submit them together: grouped_allreduce(), or *_async() for all before the first wait.",
    )


def _half_the_bytes(facts: Facts) -> Iterator[Finding]:
    seen, exposed = facts.details, exposed_share(facts)
    if seen is None or exposed is None or not seen.bytes:
        return
    used = {name for name, size in seen.ways.items() if size}
    if used and used <= _WITHIN_A_HOST:
        return
    wide = sum(seen.dtypes.get(name, 0) for name in _HALVED)
    batches = sum(seen.fusion.values())
    gain = exposed / 2
    if wide < _MOST_BYTES * seen.bytes or seen.bytes < _LARGE_BYTES * batches or gain < _WORTH:
        return
    yield Finding(
        gain,
        f"{words.percent(exposed)} of a step is communication after the backward pass; half the "
        f"bytes would save up to {words.percent(gain)}.",
        "Compression.bf16 halves the bytes of gradients.",
    )


def _new_requests(facts: Facts) -> Iterator[Finding]:
    sums = facts.sum
    requests = sums.in_full + sums.by_number
    if requests < 10 * _LEAST_OPERATIONS or not facts.active:
        return
    share = sums.in_full / requests
    busy = min(1.0, sums.negotiating / facts.active)
    if share < _IN_FULL or busy < _WORTH:
        return
    yield Finding(
        _WORTH,
        f"{words.percent(share)} of the requests are sent in full.",
        "Their names or shapes are new each time: give operations fixed names, and batches one "
        "size.",
    )


_RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _waits_for_one,
    _waits_for_all,
    _one_tensor,
    _small_batches,
    _half_the_bytes,
    _new_requests,
)


def moving_share(facts: Facts) -> float:
    """The share of the time in which batches were in flight."""
    return min(1.0, facts.sum.moving / facts.active) if facts.active else 0.0


def exposed_share(facts: Facts) -> float | None:
    """The share of a step in which batches were in flight and no gradient was still to come; None:
    the numbers do not tell."""
    seen = facts.details
    if seen is None or seen.overlap.steps <= 0 or seen.overlap.moving <= 0:
        return None
    return max(0.0, seen.overlap.moving - seen.overlap.hidden) / seen.overlap.steps


def _shares(facts: Facts) -> dict[int, float]:
    if not facts.active:
        return {}
    return {rank: min(1.0, s / facts.active) for rank, s in facts.waited_for.items()}


def _stands_out(share: float, shares: Mapping[int, float]) -> bool:
    return (
        len(shares) > 1
        and share >= _WAITING
        and share > _BEYOND_AVERAGE * _mean(shares)
        and share >= _MOST_OF_IT * sum(shares.values())
    )


def _mean(shares: Mapping[int, float]) -> float:
    return sum(shares.values()) / len(shares)
