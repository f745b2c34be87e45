"""How far the hosts of a job are while it starts, for a person who waits. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def lines(phases: Mapping[str, str], columns: int) -> list[str]:
    """A line per phase that some host is in; `phases` by host."""
    order = dict.fromkeys(phases.values())
    shown = []
    for phase in order:
        hosts = [host for host, its in phases.items() if its == phase]
        shown.append(_cut(f"hvdliterun: {phase} ({len(hosts)} of {len(phases)}): {', '.join(hosts)}", columns))
    return shown


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 1] + "…"
