"""From blocks to numbers: medians, their spread, and ratios of what was measured in the same
rounds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

Block = Mapping[str, Any]

FAR = 120.0  # ns from core to core: cores that share a cache need 30 to 90, others 180 to 230
DISTURBED = 0.25  # a block counts as disturbed if others had more than this share of the machine
ENOUGH = 5  # with fewer undisturbed blocks than this, the disturbed ones count as well


def usable(blocks: Sequence[Block | None]) -> list[Block | None]:
    """Without the disturbed ones, if enough remain. Rounds keep their places."""
    calm = [b if b is not None and b["foreign"] <= DISTURBED else None for b in blocks]
    return calm if sum(b is not None for b in calm) >= ENOUGH else list(blocks)


def times(blocks: Sequence[Block | None]) -> dict[str, Any]:
    """What a backend took, one block per round; None where it has none."""
    given = [b for b in blocks if b is not None]
    used = [b for b in usable(blocks) if b is not None]
    seconds = [b["seconds"] for b in used]

    def per_operation(key: str) -> float:
        return float(median(b[key] / b["iterations"] for b in used))

    return {
        "median": median(seconds),
        "low": min(seconds),
        "high": max(seconds),
        "blocks": len(used),
        "disturbed": sum(b["foreign"] > DISTURBED for b in given),
        "iterations": used[0]["iterations"],
        # of all ranks together, for one operation
        "cpu": per_operation("user") + per_operation("system"),
        "system": per_operation("system"),
        "switches": per_operation("switches"),
        "faults": per_operation("faults"),
    }


def ratio(slow: Sequence[Block | None], fast: Sequence[Block | None]) -> dict[str, float] | None:
    """Time of `slow` over time of `fast`: the ratio of their medians in the rounds that both have,
    and the quartiles of the rounds' own ratios."""
    pairs = [
        (s["seconds"], f["seconds"])
        for s, f in zip(usable(slow), usable(fast), strict=True)
        if s is not None and f is not None
    ]
    if not pairs:
        return None
    rounds = sorted(s / f for s, f in pairs)
    return {
        "median": median(s for s, _ in pairs) / median(f for _, f in pairs),
        "low": quantile(rounds, 0.25),
        "high": quantile(rounds, 0.75),
        "rounds": len(pairs),
    }


def distance(core_to_core_ns: Sequence[float]) -> str:
    """Whether the cores shared a cache, by what the rounds measured. A virtual machine's cores
    move."""
    far = sum(ns >= FAR for ns in core_to_core_ns)
    near = len(core_to_core_ns) - far
    if far and near:
        return f"near in {near} of {near + far} rounds, far in {far}"
    return "far" if far else "near"


def quantile(ordered: Sequence[float], share: float) -> float:
    """With linear interpolation."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
