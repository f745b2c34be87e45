"""Skipping what needs a framework, without importing it: that takes seconds and memory in the
process of pytest."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def needs_installed(*modules: str) -> None:
    """In a test, or for a whole file of tests."""
    for module in modules:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed", allow_module_level=True)
