"""What a member tells the driver of its state, so that members that do not fit are found."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from hvdlite.base import knobs
from hvdlite.elastic.handlers import StateHandler
from hvdlite.rendezvous.documents import Pairs, fitting

SAMPLE = 64  # elements of a tensor
_MOST_TENSORS = 2000
_PARTS = "the list of the state's parts"


def alike(handlers: Mapping[str, StateHandler]) -> Pairs:
    """What has to be equal on all members: settings of the engine, the parts of the state in the
    order in which they are moved, tensors and their shapes."""
    values = knobs.resolve(os.environ)
    found = [(knob.environment[0], str(values[knob.field])) for knob in knobs.KNOBS if knob.alike]
    found.append((_PARTS, ", ".join(handlers) or "none"))
    for name, handler in handlers.items():
        found += [(f"{name}.{part}", form) for part, form in handler.form().items()]
    return fitting(found)


def fingerprints(handlers: Mapping[str, StateHandler]) -> Pairs:
    """Checksums of samples of what training keeps equal on all members.

    Processors of different kinds round differently, so a name says which one has computed.
    """
    found: list[tuple[str, str]] = []
    for name, handler in handlers.items():
        for part, checksum in handler.fingerprints().items():
            found.append((f"{name}.{part} ({processor()})", checksum))
    return fitting(found[:_MOST_TENSORS])


def checksum(samples: Iterable[Any]) -> str:
    """Of bytes-like objects."""
    found = 0
    for sample in samples:
        found = zlib.crc32(sample, found)
    return f"{found:08x}"


@cache
def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            named = (line.split(":", 1)[1].strip() for line in lines if ":" in line
                     and line.split(":", 1)[0].strip() in ("model name", "CPU part"))  # fmt: skip
            return next(named, "unknown processor")
    except OSError:
        return "unknown processor"
