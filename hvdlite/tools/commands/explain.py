"""`hvdlite explain`: says what a bundle of a job shows (HVDLITE_STALL_DUMP)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from hvdlite.base import bundle
from hvdlite.base.bundle import BundlePart
from hvdlite.base.untrusted import printable


def run(arguments: argparse.Namespace) -> int:
    """Runs the command, and returns the exit status."""
    try:
        folders = bundle.folders_in(arguments.directory)
        if not folders:
            raise ValueError(f"there is no bundle in {arguments.directory}")
        parts, complaints = bundle.read(folders[0])
        if not parts:
            raise ValueError(" ".join([f"no file in {folders[0]} can be read.", *complaints]))
    except (OSError, ValueError) as error:
        print(printable(f"hvdlite explain: {error}"), file=sys.stderr)
        return 1
    said = [f"{folders[0]}:", *(f"(also there: {older})" for older in folders[1:])]
    said += [*explain(parts, stacks=arguments.stacks), *complaints]
    for line in said:  # of other people, who may want to write to this terminal
        print(printable(line.expandtabs()))
    return 0


def explain(parts: Sequence[BundlePart], stacks: bool = False) -> Iterator[str]:
    """The lines that a person reads, the verdict first. `parts` in the order of events and ranks.
    Pure."""
    first = parts[0].event
    shown = [part for part in parts if part.event == first]
    yield verdict(parts)
    yield ""
    yield f"At {shown[0].at}, {_EVENTS[first]}:"
    for places in _by_place(shown):
        yield f"  {_ranks([part.rank for part in places])} in {places[0].place}"
    missing = sorted(set(range(shown[0].size)) - {part.rank for part in shown})
    if missing:
        yield f"  {_ranks(missing)}: no file (dead, stopped, or held up in C code)"
    for part in shown:
        yield from _about(part, stacks)


def verdict(parts: Sequence[BundlePart]) -> str:
    """The sentence that the job has printed: of the stall if there was one, else of the failure."""
    return next((part.verdict for part in parts if part.verdict), _ASKED)


_EVENTS = {
    "stall": "when operations stalled",
    "failure": "when the job had failed",
    "asked": "when the job was asked",
}
_ASKED = "The job was asked, and there is no verdict: no operation had stalled."


def _by_place(parts: Sequence[BundlePart]) -> list[list[BundlePart]]:
    """Those that are in one place, together; the largest group first."""
    groups: dict[str, list[BundlePart]] = {}
    for part in parts:
        groups.setdefault(part.place, []).append(part)
    return sorted(groups.values(), key=len, reverse=True)


def _ranks(ranks: Sequence[int]) -> str:
    names = ", ".join(str(rank) for rank in ranks[:8]) + (", ..." if len(ranks) > 8 else "")
    return f"rank {names}" if len(ranks) == 1 else f"{len(ranks)} ranks ({names})"


def _about(part: BundlePart, stacks: bool) -> Iterator[str]:
    yield ""
    versions = ", ".join(f"{name} {version}" for name, version in part.versions.items())
    yield f"rank {part.rank} on {part.host}, process {part.pid}: {versions}"
    if part.operations:
        last = part.operations[-1]
        how = "failed" if last.get("failed") else "ended"
        yield f"  {part.counters.get('operations', 0)} operations; {last['name']} {how} last"
    for stack in part.stacks:
        if stack.main or stacks:
            yield f"  {stack.name}:"
            yield from (f"  {line}" for text in stack.lines for line in text.splitlines())
