"""Says what an environment variable of Horovod means with hvdlite."""

from __future__ import annotations

from collections.abc import Iterator

from hvdlite.base import knobs
from hvdlite.tools.doctor import advice
from hvdlite.tools.doctor.findings import Finding, Kind

_KNOWN = {name for knob in knobs.KNOBS for name in knob.environment}


def about(file: str, line: int, name: str) -> Iterator[Finding]:
    """Yields findings. Ignores variables that have nothing to do with Horovod."""
    if name in _KNOWN:
        yield Finding(
            Kind.WORKS, file, line, name, "is read by hvd.init(); docs/reference/knobs.md"
        )
    elif name in advice.ALSO_WORK:
        yield Finding(Kind.WORKS, file, line, name, advice.ALSO_WORK[name])
    elif name in advice.LAUNCHERS:
        yield Finding(Kind.DIFFERS, file, line, name, advice.LAUNCHERS[name])
    elif name in advice.NO_EFFECT:
        yield Finding(Kind.DIFFERS, file, line, name, f"has no effect: {advice.NO_EFFECT[name]}")
    elif name.startswith("HOROVOD_"):
        yield Finding(
            Kind.DIFFERS,
            file,
            line,
            name,
            "has no effect: neither Horovod 0.28.1 nor hvdlite reads it",
        )
