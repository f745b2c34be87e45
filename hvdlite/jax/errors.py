"""hvdlite's exceptions where JAX raises its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hvdlite.adapter import failures


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """A collective that fails inside a compiled function raises jax.errors.JaxRuntimeError, or
    ValueError where JAX runs the program before it returns, with hvdlite's message. In this block,
    or under it as a decorator, it is hvdlite's exception instead: PeerLostError, MismatchError, ...

    Where JAX does not, it returns before a computation has ended; fetch or block on a result inside
    the block.
    """
    with failures.translated(RuntimeError, ValueError):
        yield
