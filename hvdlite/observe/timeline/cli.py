"""What `hvdlite timeline merge` does: reads the files of ranks and profilers, writes one trace."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvdlite.base import private_file, untrusted
from hvdlite.base.untrusted import printable
from hvdlite.observe.timeline import merging
from hvdlite.observe.timeline.merging import Merged, Placed
from hvdlite.observe.timeline.reading import Event, Trace, read


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
            merged.events.extend(_on_the_clock_of(placed, _read_profile(path)))
            return
    raise ValueError(f"there is no timeline of rank {rank}, to which {path} belongs")


def _trace(path: Path) -> Trace:
    try:
        return read(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


# What a profiler of a framework has recorded on a rank, on the clock of that rank's timeline.
#
# torch.profiler's export_chrome_trace() is a file of JSON, and its times count from a date in it.
# jax.profiler.trace() writes a folder. Its trace counts from its own beginning, and the date of
# that is in the .xplane.pb beside it, which jax reads.

# Processes of the profile of rank 3 have the numbers from 40,000 on.
_PROCESSES_OF_A_RANK = 10_000
_LATEST = 1e20  # nanoseconds since 1970


@dataclass(frozen=True)
class Profile:
    events: Sequence[Event]
    epoch: float  # microseconds: the wall clock where its times are 0


def _read_profile(path: Path) -> Profile:
    """Raises ValueError if nothing there is a profile."""
    if path.is_dir() or path.name.endswith(".xplane.pb"):
        return _of_jax(path)
    found = _json(path)
    if "baseTimeNanoseconds" not in found:
        raise ValueError(
            f"{path} does not say when it was recorded. torch.profiler's export_chrome_trace() "
            "says it; of jax.profiler.trace() give the folder"
        )
    return Profile(found["traceEvents"], found["baseTimeNanoseconds"] / 1e3)


def _on_the_clock_of(rank: Placed, profile: Profile) -> Iterator[Event]:
    """Its events beside those of the rank's timeline."""
    number = rank.trace.rank
    shift = profile.epoch - rank.trace.clock.epoch
    processes: dict[Any, int] = {}
    for event in profile.events:
        if "pid" not in event or event.get("name") == "process_sort_index":
            continue
        known = len(processes)
        pid = _PROCESSES_OF_A_RANK * (number + 1) + processes.setdefault(event["pid"], known)
        if len(processes) > known:
            yield _described("process_sort_index", pid, {"sort_index": number})
        if event.get("name") == "process_name":
            name = f"rank {number}: {event.get('args', {}).get('name', '')}"
            yield _described("process_name", pid, {"name": name})
            continue
        moved = {"ts": rank.at(event["ts"] + shift)} if "ts" in event else {}
        yield dict(event) | {"pid": pid} | moved


def _described(what: str, pid: int, args: Mapping[str, Any]) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": 0, "args": dict(args)}


def _of_jax(path: Path) -> Profile:
    found = sorted(path.rglob("*.xplane.pb")) if path.is_dir() else [path]
    if not found:
        raise ValueError(f"there is no .xplane.pb in {path}; jax.profiler.trace() writes one")
    newest = found[-1]
    trace = newest.with_name(newest.name.removesuffix(".xplane.pb") + ".trace.json.gz")
    if not trace.exists():
        raise ValueError(f"there is no {trace}; jax.profiler.trace() writes it")
    return Profile(_json(trace)["traceEvents"], _started(newest) / 1e3)


def _started(xplane: Path) -> int:
    try:
        from jax.profiler import ProfileData
    except ImportError:
        raise ValueError(f"{xplane} can be read where jax is installed: pip install jax") from None
    for plane in ProfileData.from_file(str(xplane)).planes:
        for name, value in plane.stats:
            if name == "profile_start_time":
                return int(value)
    raise ValueError(f"{xplane} does not say when it was recorded")


def _json(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    try:
        found = untrusted.parsed(untrusted.unpacked(data) if path.suffix == ".gz" else data)
        _check(found)
    except ValueError as error:
        raise ValueError(f"{path} is not a profiler's trace: {error}") from None
    events: dict[str, Any] = found
    return events


def _check(found: Any) -> None:
    """Raises ValueError if it is no trace: traces come from other people."""
    if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
        raise ValueError("it has no events")
    if not untrusted.is_number(found.get("baseTimeNanoseconds", 0), 0, _LATEST):
        raise ValueError("its baseTimeNanoseconds is no time")
    for number, event in enumerate(found["traceEvents"]):
        good = (
            isinstance(event, dict)
            and isinstance(event.get("pid", 0), (int, str))
            and untrusted.is_number(event.get("ts", 0))
            and isinstance(event.get("args", {}), dict)
        )
        if not good:
            raise ValueError(f"its event {number} is none")
