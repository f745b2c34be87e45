"""The update gate: the updates of a step begin behind it, once all its reductions are done.

So a step whose reduction fails leaves weights and optimizer as they were, and the gate knows
whether an update has begun since the last boundary. An adapter puts it into its optimizers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any


class Gate:
    """For frameworks that do one operation after the other: an error has ended the step before."""

    def __init__(self) -> None:
        self._has_begun = False

    @contextlib.contextmanager
    def behind(self, gradients: Sequence[Any]) -> Iterator[None]:
        """The updates made in this block wait for all these gradients."""
        del gradients
        self._has_begun = True
        yield

    def has_begun(self) -> bool:
        """Whether an update may have begun since close()."""
        return self._has_begun

    def close(self) -> None:
        """The program is at a boundary."""
        self._has_begun = False

    def guards(self) -> bool:
        """Whether it is known that a step that fails changes nothing behind the gate."""
        return True

    # ---- where a step takes the memory of the variables before it

    def wait(self, model: Any, variables: Sequence[Any]) -> None:
        """The model's step is computed, and the variables have its results. May raise its error."""

    def forget(self, model: Any) -> None:
        """The model's step has failed, or other contents are about to be assigned."""

    def are_alive(self, variables: Sequence[Any]) -> bool:
        """Whether the variables have contents."""
        return True
