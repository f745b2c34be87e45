"""When ranks that train by themselves average their weights: DECIDES, knows numbers, no tensors.

A rank counts its steps. The functions below say what follows from the counts. The numbers may be
Python's, arrays in a compiled program, or variables of Keras: `ops` is numpy, jax.numpy or
keras.ops.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hvdlite.adapter import elastic
from hvdlite.adapter.local.outer import Outer, OuterSGD, check_outer

Ops = Any  # a module with numpy's functions
Number = Any

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NOTHING = 1e-6
_TIME = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|h)\s*")


@dataclass(frozen=True)
class Plan:
    """What a program asks for."""

    every: int = 1  # steps from one average of a parameter to the next; unless `seconds`
    seconds: float = 0.0  # time from one average to the next
    start: int = 0  # so many steps are synchronous before
    adaptive: bool = False
    fragments: int = 1  # a round of `every` steps averages so many parts of the model in turn
    overlap: int = 0  # an average is applied so many steps after it was started
    weights_only: bool = False  # averages of gradients will not do instead

    @property
    def is_timed(self) -> bool:
        return self.seconds > 0

    @property
    def is_cut(self) -> bool:
        """Whether the counts alone say what is averaged when, part by part."""
        return self.fragments > 1 or self.overlap > 0

    @property
    def never_synchronous(self) -> bool:
        return self.start == 0 and not self.always_synchronous

    @property
    def always_synchronous(self) -> bool:
        """An average of the weights in each step is an average of the gradients. That one is
        exact: it gives the bits of synchronous training."""
        return self.every == 1 and not (self.is_timed or self.adaptive or self.weights_only)


class Count(NamedTuple):
    """What a rank has counted. All are numbers, and part of checkpoints."""

    steps: Number  # all steps
    since: Number  # steps since the last average, or in this round of fragments
    interval: Number  # steps from one average to the next
    samples: Number  # since the last average
    loss: Number  # the sum of those of the steps since the last average
    first: Number  # the mean loss of the first interval; 0: not known
    at: Number  # the clock's time of the last average


def local_sgd(every: int | str, start: int = 0, momentum: str = "local",
              adaptive: bool = False) -> Plan:  # fmt: skip
    """The plan of hvd.LocalSGD, or a ValueError with a sentence."""
    check_momentum(momentum, "local", "average")
    return planned(every, start, adaptive)


def diloco(outer: Outer = OuterSGD(), every: int | str = 500, fragments: int = 1,  # noqa: B008
           overlap: int = 0, momentum: str = "local") -> Plan:  # fmt: skip
    """The plan of hvd.DiLoCo, or an error with a sentence."""
    check_momentum(momentum, "local", "reset")
    check_outer(outer)
    return planned(every, fragments=fragments, overlap=overlap, weights_only=True)


def planned(every: int | str, start: int = 0, adaptive: bool = False, fragments: int = 1,
            overlap: int = 0, weights_only: bool = False) -> Plan:  # fmt: skip
    """The plan, or a ValueError with a sentence."""
    seconds = _seconds(every) if isinstance(every, str) else 0.0
    steps = 1 if isinstance(every, str) else _whole("every", every, 1)
    plan = Plan(steps, seconds, _whole("start", start, 0), bool(adaptive),
                _whole("fragments", fragments, 1), _whole("overlap", overlap, 0),
                weights_only)  # fmt: skip
    if plan.is_timed and elastic.enabled():
        raise ValueError(
            f"every={every!r} is not possible in an elastic job: by time, ranks average after "
            "different steps, and state.step() and state.commit() bring them together in the same "
            "ones. Pass a number of steps"
        )
    if plan.is_timed and (plan.adaptive or plan.is_cut):
        what = "adaptive=True" if plan.adaptive else "fragments and overlap"
        raise ValueError(f"{what} counts steps: pass a number of steps as every, not {every!r}")
    if plan.adaptive and plan.is_cut:
        raise ValueError("adaptive=True changes the interval, which fragments and overlap divide")
    if plan.fragments > plan.every:
        raise ValueError(
            f"fragments={fragments} needs as many steps: every={every} is too few for one fragment "
            "per step"
        )
    if plan.overlap >= max(plan.every // plan.fragments, 1):
        raise ValueError(
            f"overlap={overlap} must be smaller than every // fragments, which is "
            f"{plan.every // plan.fragments}: an average is applied before the next one starts"
        )
    return plan


def check_momentum(momentum: str, *possible: str) -> None:
    """A ValueError unless what becomes of the optimizer's momentum is one of these."""
    if momentum not in possible:
        expected = " or ".join(map(repr, possible))
        raise ValueError(f"momentum={momentum!r} is not possible: expected {expected}")


def begin(plan: Plan, now: Number = 0.0) -> Count:
    """Before the first step."""
    return Count(0.0, 0.0, float(plan.every), 0.0, 0.0, 0.0, now)


def is_synchronous(plan: Plan, count: Count) -> Any:
    """Whether the next step averages gradients, and no weights."""
    return plan.always_synchronous or count.steps < plan.start


def stepped(plan: Plan, count: Count, now: Number, ops: Ops, samples: Number = 1.0,
            loss: Number = 0.0) -> Count:  # fmt: skip
    """After a step of the optimizer. Synchronous steps leave nothing to average."""
    local = 0.0 if plan.always_synchronous else 1.0
    at = count.at
    if plan.start:
        local = ops.where(count.steps < plan.start, 0.0, 1.0)
        at = ops.where(count.steps < plan.start, now, at)
    return Count(
        count.steps + 1.0,
        (count.since + 1.0) * local,
        count.interval,
        (count.samples + samples) * local,
        (count.loss + loss) * local,
        count.first,
        at,
    )


def is_due(plan: Plan, count: Count, now: Number) -> Any:
    """Whether all weights are averaged now. Not for a plan that is cut."""
    if plan.is_timed:  # a checkpoint may have the time of another process's clock
        return abs(now - count.at) >= plan.seconds
    return count.since >= count.interval


def share(plan: Plan, count: Count, ops: Ops) -> Number:
    """The weight of this rank in the average. Ranks whose intervals end by time have made different
    numbers of steps; some may have made none, but never weigh nothing all together."""
    return ops.maximum(count.samples, _NOTHING) if plan.is_timed else 1.0


def mean_loss(count: Count, ops: Ops) -> Number:
    """Of the steps since the last average."""
    return count.loss / ops.maximum(count.since, 1.0)


def averaged(plan: Plan, count: Count, loss: Number, now: Number, ops: Ops) -> Count:
    """After an average. `loss`: the mean of all ranks' mean losses.

    AdaComm: the square root of the loss shrinks the interval. A loss that is not finite, or not
    positive, leaves it.
    """
    interval, first = count.interval, count.first
    if plan.adaptive:
        known = ops.where(first > 0.0, first, loss)
        ratio = loss / ops.where(known > 0.0, known, 1.0)
        usable = (known > 0.0) & (ratio > 0.0) & (ratio < math.inf)
        wanted = ops.ceil(ops.sqrt(ops.where(usable, ratio, 1.0)) * plan.every)
        interval = ops.where(usable, ops.clip(wanted, 1.0, float(plan.every)), interval)
        first = ops.where(usable, known, first)
    return Count(count.steps, 0.0 * count.since, interval, 0.0 * count.samples, 0.0 * count.loss,
                 first, now)  # fmt: skip


# ---- what ranks agree on before an average
#
# Each rank sends a statement: numbers for every parameter. All ranks receive the maximum of each
# number. A rank that has joined sends zeros.


class Agreed(NamedTuple):
    """What all ranks know before an average."""

    trains: bool  # some rank goes on with its steps: not all are in sync()
    moved: list[int]  # the parameters that some rank has moved, or may have
    apart: list[int]  # those of which some ranks have optimizer state, and others have none


def statement(trains: bool, moved: Sequence[bool], known: Sequence[bool] = ()) -> list[int]:
    """What a rank sends. `known`: of which parameters it has optimizer state, if that is averaged,
    too."""
    return [int(trains), *map(int, moved), *map(int, known), *(int(not each) for each in known)]


def agreed(largest: Sequence[int], parameters: int) -> Agreed:
    """What follows from the maxima of all ranks' statements."""
    trains, rest = largest[0], largest[1:]
    moved = [n for n in range(parameters) if rest[n]]
    known, lacking = rest[parameters : 2 * parameters], rest[2 * parameters :]
    apart = [n for n in moved if known and known[n] and lacking[n]]
    return Agreed(bool(trains), moved, apart)


# ---- fragments: what is averaged when in a round of `every` steps


def starts(plan: Plan) -> list[int]:
    """After which step of a round each fragment's average starts."""
    return [(part + 1) * plan.every // plan.fragments for part in range(plan.fragments)]


def applied_after(plan: Plan, fragment: int) -> int:
    """After which step of a round the fragment's average is applied; of the next round, if that is
    an earlier one than it starts in."""
    step = starts(plan)[fragment] + plan.overlap
    return step - plan.every if step > plan.every else step


def _seconds(every: str) -> float:
    found = _TIME.fullmatch(every)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if seconds <= 0:
        raise ValueError(
            f"every={every!r} is no time: expected a number of steps, or a time such as '10s', "
            "'500ms' or '2m'"
        )
    return seconds


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r} is not possible: expected a whole number from {least}")
    return value
