"""Kinds of the commits since b00d0b8, for `scripts/lines-since b00d0b8 --commits`."""

from __future__ import annotations

KINDS: dict[str, str] = {}
