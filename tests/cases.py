"""Tables of a test's cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


def cases(names: str, table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """A test is run with each row of the table, and called as the row is."""
    return pytest.mark.parametrize(names, list(table.values()), ids=list(table))


def variables(text: str) -> dict[str, str]:
    """`A=1 B=2` as a part of an environment."""
    return dict(word.split("=", 1) for word in text.split())
