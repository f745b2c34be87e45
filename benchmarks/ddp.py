"""The backend hvdlite of torch.distributed beside gloo, and beside a backend that sends nothing:
the same program, taking turns.

benchmarks/ddp                      prints a table
benchmarks/ddp --rounds 20 --ranks 4
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import machine
import report
from ddp_worker import WORKLOADS
from group import Group
from launch import KEEP_MEMORY, Backend
from record import end_in_order
from report import time_text
from summary import ratio

WAYS = tuple(
    Backend(name, name, f"torch.distributed over {name}", (), KEEP_MEMORY)
    for name in ("gloo", "hvdlite", "nothing")
)
# The speed of a process depends on where its memory happens to lie, so all start anew now and then.
ROUNDS_OF_A_START = 5


def measure(ranks: int, rounds: int, quiet: float, scheduling: str) -> dict[str, Any]:
    blocks: dict[str, dict[str, list[Any]]] = {
        name: {way.name: [] for way in WAYS} for name in WORKLOADS
    }
    for first in range(0, rounds, ROUNDS_OF_A_START):
        groups = [Group(way, ranks, "ddp_worker.py") for way in WAYS]
        try:
            for group in groups:
                group.ask(op="schedule", wanted=scheduling)
            for number in range(first, min(first + ROUNDS_OF_A_START, rounds)):
                for name in WORKLOADS:
                    # Each goes first in every other round.
                    for group in groups[:: 1 if number % 2 else -1]:
                        machine.wait_for_quiet(quiet)
                        block = group.block(op="measure", workload=name)
                        if "error" in block:
                            raise SystemExit(f"{group.name}, {name}: {block['error']}")
                        blocks[name][group.name].append(block)
                print(f"round {number + 1} of {rounds}", file=sys.stderr)
        finally:
            for group in groups:
                group.close()
    return blocks


def _times(blocks: Sequence[Any]) -> str:
    seconds = sorted(block["seconds"] for block in blocks)
    return f"{time_text(statistics.median(seconds))} [{time_text(seconds[0])}]"


def table(blocks: dict[str, Any]) -> list[str]:
    """The median of the rounds' medians, in brackets the smallest; and the ratios of the medians,
    with the quartiles of the rounds' own ratios. The last one bounds what any backend reaches."""
    ours = [way.name for way in WAYS if way.name != "gloo"]
    heads = ["", *(way.name for way in WAYS), *(f"gloo / {name}" for name in ours)]
    rows = []
    for name, ways in blocks.items():
        found = [ratio(ways["gloo"], ways[each]) for each in ours]
        shares = [f"{r['median']:.1f} [{r['low']:.1f}..{r['high']:.1f}]" for r in found if r]
        rows.append([name, *(_times(ways[way.name]) for way in WAYS), *shares])
    return report.table(heads, rows).splitlines()


def main() -> None:
    end_in_order()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--quiet",
        type=float,
        default=0.3,
        help="wait up to this long for others, before each block",
    )
    parser.add_argument("--scheduling", choices=["nice", "fifo"], default="nice")
    given = parser.parse_args()
    machine.take_turns()
    blocks = measure(given.ranks, given.rounds, given.quiet, given.scheduling)
    print("\n".join(table(blocks)))


if __name__ == "__main__":
    main()
