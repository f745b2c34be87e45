"""What a Keras optimizer has for hvdlite's sake, and files do not."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any


@contextlib.contextmanager
def without(optimizer: Any, added: Collection[int]) -> Iterator[None]:
    """In this context the optimizer lacks the variables with these ids."""
    everything = optimizer.__dict__["_variables"]
    plain = [variable for variable in everything if id(variable) not in added]
    # on TensorFlow, Keras tracks what is set in the usual way
    object.__setattr__(optimizer, "_variables", plain)
    try:
        yield
    finally:
        object.__setattr__(optimizer, "_variables", everything)
