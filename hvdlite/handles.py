"""Handles of asynchronous operations: hvdlite/core/handles.py."""

from hvdlite.core.handles import *  # noqa: F403
