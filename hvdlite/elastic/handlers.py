"""How the parts of a state that are more than a value are copied, put back and moved."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.data.cursor import Cursor


class StateHandler:
    """Of one value. Derive from it for a type of your own."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Makes the copy to which restore() goes back."""
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync(self, root_rank: int = 0) -> None:
        """Gives all ranks that of `root_rank`."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        self.value = value
        self.save()

    # ---- for boundaries

    def at_boundary(self) -> None:
        """A step is whole."""

    def keep(self) -> None:
        """Notes what a failed step would spoil before the optimizer's first update."""

    def put_back(self) -> None:
        """Goes back to what keep() has noted."""

    def guard(self, tear: Callable[[], None]) -> bool:
        """Has `tear` called before each change that keep() does not cover.

        Returns False where that is impossible.
        """
        del tear
        return True

    def is_torn(self) -> bool:
        """Whether a change that keep() does not cover may have begun since the boundary."""
        return False

    def reset(self) -> None:
        """The job goes on with other ranks."""

    # ---- for the driver, which compares the members'

    def form(self) -> dict[str, str]:
        """What has to be equal on all ranks before sync(): tensors with their types and shapes."""
        return {}

    def fingerprints(self) -> dict[str, str]:
        """By tensor, a checksum of a sample. Only tensors that training keeps equal on all ranks,
        and that no failed step has changed while the state is whole."""
        return {}


class StateDictHandler(StateHandler):
    """Of what has a state_dict() of a few objects: samplers, schedules, scalers."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._copy: Any = None
        self._kept: Any = None

    def save(self) -> None:
        self._copy = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._copy))

    def sync(self, root_rank: int = 0) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), root_rank))

    def keep(self) -> None:
        self._kept = copy.deepcopy(self.value.state_dict())

    def put_back(self) -> None:
        if self._kept is not None:
            self.value.load_state_dict(copy.deepcopy(self._kept))


class CursorHandler(StateDictHandler):
    """Of a Cursor, which moves when a step is whole."""

    value: Cursor

    def at_boundary(self) -> None:
        self.value.whole()

    def reset(self) -> None:
        self.value.reset()

    def form(self) -> dict[str, str]:
        return {"length": str(self.value.state_dict()["length"])}


def has_state_dict(value: Any) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict"))
