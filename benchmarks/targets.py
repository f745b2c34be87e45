"""What was to be reached on a machine with 2 cores, and whether it was. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Verdict:
    what: str
    wanted: str
    found: str
    met: bool


def judge(results: Mapping[str, Any], suffix: str = "") -> list[Verdict]:
    """Of the runs named 2 and 4, or with a suffix 2-fifo and 4-fifo; the rest goes with the runs
    without one."""
    found: list[Verdict] = []
    runs = results.get("collectives", {})
    if two := runs.get("2" + suffix):
        rows = two["rows"]
        found += [*_small(rows), *_large(rows), *_tcp(rows), *_cpu(rows)]
    if four := runs.get("4" + suffix):
        found += _crowded(four["rows"])
    return found if suffix else [*found, *_lifecycle(results)]


def median(row: Row, name: str) -> float | None:
    value: float | None = row["backends"].get(name, {}).get("median")
    return value


def times_faster(row: Row, peer: str, than: str = "hvdlite") -> float | None:
    """The peer's time over that of `than`."""
    theirs, ours = median(row, peer), median(row, than)
    return theirs / ours if theirs and ours else None


def _best_mpi(row: Row) -> float | None:
    found = [r for r in (times_faster(row, "openmpi"), times_faster(row, "mpich")) if r]
    return min(found) if found else None


def _select(rows: list[Row], low: int, high: int, dtype: str = "float32") -> list[Row]:
    return [
        r
        for r in rows
        if r["op"] == "allreduce" and r["dtype"] == dtype and low <= r["bytes"] <= high
    ]


def _at_least(what: str, wanted: float, values: list[float | None]) -> Iterator[Verdict]:
    given = [v for v in values if v is not None]
    if given:
        yield Verdict(what, f"≥ {wanted:g}×", f"{min(given):.2f}×", min(given) >= wanted)


def _at_most(
    what: str, wanted: float, values: list[float | None], text: Callable[[float], str]
) -> Iterator[Verdict]:
    given = [v for v in values if v is not None]
    if given:
        yield Verdict(what, f"≤ {text(wanted)}", text(max(given)), max(given) <= wanted)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs"


def _small(rows: list[Row]) -> Iterator[Verdict]:
    tiny, medium = _select(rows, 4, 4 * KIB), _select(rows, 64 * KIB, 64 * KIB)
    yield from _at_most(
        "4 B to 4 KiB, the slowest", 10e-6, [median(r, "hvdlite") for r in tiny], _micro
    )
    yield from _at_least(
        "4 B to 4 KiB, faster than gloo", 30, [times_faster(r, "gloo") for r in tiny]
    )
    yield from _at_most("64 KiB", 15e-6, [median(r, "hvdlite") for r in medium], _micro)
    yield from _at_least("64 KiB, faster than gloo", 25, [times_faster(r, "gloo") for r in medium])


def _large(rows: list[Row]) -> Iterator[Verdict]:
    one, sixteen, most = (_select(rows, size * MIB, size * MIB) for size in (1, 16, 64))
    yield from _at_least("1 MiB, faster than gloo", 12, [times_faster(r, "gloo") for r in one])
    yield from _at_least(
        "1 MiB, faster than Open MPI", 1.5, [times_faster(r, "openmpi") for r in one]
    )
    yield from _at_least("16 MiB, faster than gloo", 10, [times_faster(r, "gloo") for r in sixteen])
    yield from _at_least("16 MiB, faster than the best MPI", 1.4, [_best_mpi(r) for r in sixteen])
    yield from _at_least("64 MiB, faster than gloo", 8, [times_faster(r, "gloo") for r in most])
    yield from _at_least("64 MiB, faster than the best MPI", 1.5, [_best_mpi(r) for r in most])
    for size in (1, 16, 64):
        plain, half = (
            _select(rows, size * MIB, size * MIB, dtype) for dtype in ("float32", "bfloat16")
        )
        if (
            plain
            and half
            and (ours := median(half[0], "hvdlite"))
            and (reference := median(plain[0], "hvdlite"))
        ):
            yield Verdict(
                f"{size} MiB of bfloat16 over float32",
                "≤ 1.1",
                f"{ours / reference:.2f}",
                ours <= 1.1 * reference,
            )
    steps = [r for r in rows if r["op"] == "step" and r["dtype"] == "float32"]
    yield from _at_least(
        "161 gradients, faster than gloo", 7, [times_faster(r, "gloo") for r in steps]
    )
    yield from _at_least(
        "161 gradients, faster than DDP", 10, [times_faster(r, "ddp") for r in steps]
    )
    yield from _at_least(
        "161 gradients in the pool, faster than DDP",
        10,
        [times_faster(r, "ddp", "hvdlite-pool") for r in steps],
    )
    gpt2 = [r for r in rows if r["op"] == "gpt2 step" and r["dtype"] == "float32"]
    yield from _at_least(
        "GPT-2's gradients in the pool, faster than DDP",
        8,
        [times_faster(r, "ddp", "hvdlite-pool") for r in gpt2],
    )
    yield from _at_least(
        "16 MiB in the pool, faster than elsewhere",
        2,
        [times_faster(r, "hvdlite", "hvdlite-pool") for r in sixteen],
    )
    yield from _at_least(
        "161 gradients, faster than Open MPI", 1.3, [times_faster(r, "openmpi") for r in steps]
    )


def _tcp(rows: list[Row]) -> Iterator[Verdict]:
    small, large = _select(rows, 4, MIB - 1), _select(rows, MIB, 64 * MIB)
    yield from _at_least(
        "TCP below 1 MiB, faster than gloo",
        1,
        [times_faster(r, "gloo", "hvdlite-tcp") for r in small],
    )
    yield from _at_least(
        "TCP from 1 MiB up, faster than gloo",
        1.5,
        [times_faster(r, "gloo", "hvdlite-tcp") for r in large],
    )


def _crowded(rows: list[Row]) -> Iterator[Verdict]:
    for row in _select(rows, 64 * KIB, 64 * MIB):
        size = f"{row['bytes'] // MIB} MiB" if row["bytes"] >= MIB else f"{row['bytes'] // KIB} KiB"
        yield from _at_least(
            f"4 ranks on 2 cores, {size}, faster than gloo", 6, [times_faster(row, "gloo")]
        )


def _cpu(rows: list[Row]) -> Iterator[Verdict]:
    for size in (16, 64):
        for row in _select(rows, size * MIB, size * MIB):
            ours, theirs = (
                row["backends"].get(name, {}).get("cpu") for name in ("hvdlite", "gloo")
            )
            if ours and theirs:
                yield Verdict(
                    f"{size} MiB, CPU time over gloo's",
                    "≤ 0.25",
                    f"{ours / theirs:.2f}",
                    ours <= theirs / 4,
                )


def _lifecycle(results: Mapping[str, Any]) -> Iterator[Verdict]:
    if idle := results.get("idle"):
        share = idle["share"]["hvdlite"]
        yield Verdict("idle, share of a core", "< 0.5 %", f"{100 * share:.3f} %", share < 0.005)
    if memory := results.get("memory"):
        extra, growth = memory["extra_mib"], memory["growth_mib"]
        allowed = memory["allowed_mib"]
        yield Verdict(
            "extra memory of a rank", f"≤ {allowed:.0f} MiB", f"{extra:.1f} MiB", extra <= allowed
        )
        what = f"growth over {memory['operations']:,} operations"
        yield Verdict(what, "none (≤ 0.5 MiB)", f"{growth:.2f} MiB", growth <= 0.5)
    for row in results.get("startup", {}).get("rows", []):
        if limit := row.get("limit"):
            found = row["median"]
            yield Verdict(
                row["what"], f"< {1e3 * limit:.0f} ms", f"{1e3 * found:.1f} ms", found < limit
            )
