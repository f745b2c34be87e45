"""Containers of tensors, such as a state_dict(): dictionaries, lists, tuples, named tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def mapped(value: Any, change: Callable[[Any, Any], Any], own: Any = None) -> Any:
    """The same containers with change(leaf, own leaf) for each leaf.

    `own` is a value of an earlier time; a leaf that it does not have is None.
    """
    if isinstance(value, dict):
        inside = own if isinstance(own, dict) else {}
        return {key: mapped(item, change, inside.get(key)) for key, item in value.items()}
    if not isinstance(value, (list, tuple)):
        return change(value, own)
    before = [None] * len(value)
    if isinstance(own, (list, tuple)) and len(own) == len(value):
        before = list(own)
    items = [mapped(item, change, one) for item, one in zip(value, before, strict=True)]
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
