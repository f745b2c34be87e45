"""What `hvdlite timeline merge` does."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hvdlite.base import private_file
from hvdlite.base.untrusted import printable
from hvdlite.observe.timeline import merging, profiles
from hvdlite.observe.timeline.merging import Merged
from hvdlite.observe.timeline.reading import Trace, read


def run(arguments: argparse.Namespace) -> int:
    """Runs the command, and returns the exit status."""
    files = beside(arguments.files)
    output: Path = arguments.output or files[0].with_suffix(".merged.json")
    try:
        merged = merging.merge([_trace(path) for path in files])
        for rank, path in arguments.profile:
            add_profile(merged, rank, path)
        data = json.dumps(merged.document(), separators=(",", ":")).encode()
        packed = gzip.compress(data) if output.suffix == ".gz" else data
        # For this user only, as the timelines are.
        write = private_file.write_as_asked if arguments.output else private_file.write
        write(str(output), packed)
    except (OSError, ValueError) as error:
        print(printable(f"hvdlite timeline: {error}."), file=sys.stderr)
        return 1
    for placed in merged.ranks:
        exact, how = merging.uncertainty(placed.alignment), placed.alignment.how
        print(
            f"rank {placed.trace.rank}: {len(placed.trace.operations)} operations, "
            f"error of the clock {exact} ({how})"
        )
    print(f"{output}: {len(merged.events)} events, {merged.arrows} arrows. Open it in "
          "https://ui.perfetto.dev or chrome://tracing.")  # fmt: skip
    return 0


def beside(files: Sequence[Path]) -> list[Path]:
    """The files, and with rank 0's alone those of the other ranks."""
    if len(files) > 1:
        return list(files)
    first = files[0]
    others = first.parent.glob(f"{first.stem}.rank*{first.suffix}")
    return [first, *sorted(others)]


def add_profile(merged: Merged, rank: int, path: Path) -> None:
    """Adds a profile of that rank. Raises ValueError if there is no timeline of the rank."""
    for placed in merged.ranks:
        if placed.trace.rank == rank:
            merged.events.extend(profiles.placed(profiles.read(path), placed))
            return
    raise ValueError(f"there is no timeline of rank {rank}, to which {path} belongs")


def _trace(path: Path) -> Trace:
    try:
        return read(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
