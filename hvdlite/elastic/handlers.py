"""How the parts of a state that are more than a value are copied, put back, moved and described."""

from __future__ import annotations

import copy
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from hvdlite.base import knobs
from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.data.cursor import Cursor
from hvdlite.rendezvous.documents import Pairs, fitting


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


# Variables that are changed in place.


Array = np.ndarray[Any, Any]
Variables = list[Any]
Contents = list[tuple[Any, Array]]  # variables, each with its own


class VariablesCopy:
    """What variables had in them. The memory is allocated once."""

    def __init__(self) -> None:
        self._kept: Contents = []

    def take(self, variables: Sequence[Any], contents: Iterable[Array]) -> None:
        before = {id(variable): array for variable, array in self._kept}
        self._kept = [
            (variable, _copied(array, before.get(id(variable))))
            for variable, array in zip(variables, contents, strict=True)
        ]

    def contents(self) -> Contents:
        """With arrays of the caller's own: JAX may use their memory."""
        return [(variable, array.copy()) for variable, array in self._kept]


class VariablesHandler(StateHandler):
    """Of something with variables. A framework says which there are, and reads and writes them."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._copy = VariablesCopy()
        self._kept = VariablesCopy()
        self._latest = self._copy  # of those that have everything

    def variables(self) -> Variables:
        raise NotImplementedError

    def not_guarded(self) -> Variables | None:
        """Those that a step that fails may have changed; None: all."""
        return None

    def read(self, variables: Variables) -> Iterable[Array]:
        raise NotImplementedError

    def write(self, contents: Contents) -> None:
        raise NotImplementedError

    # ---- what states ask for

    def save(self) -> None:
        self._take_all(self._copy)

    def restore(self) -> None:
        self.write(self._copy.contents())

    def keep(self) -> None:
        some = self.not_guarded()
        if some is None:
            self._take_all(self._kept)
        else:
            self._kept.take(some, self.read(some))

    def put_back(self) -> None:
        self.write(self._kept.contents())

    def revive(self) -> None:
        """Puts back the latest copy of everything."""
        self.write(self._latest.contents())

    def _take_all(self, copy: VariablesCopy) -> None:
        variables = self.variables()
        copy.take(variables, self.read(variables))
        self._latest = copy


def _copied(value: Array, own: Array | None) -> Array:
    if own is None or own.shape != value.shape or own.dtype != value.dtype:
        own = np.empty(value.shape, value.dtype)
    np.copyto(own, value)
    return own


# What a member tells the driver of its state, so that members that do not fit are found.


SAMPLE = 64  # elements of a tensor
_MOST_TENSORS = 2000
_LIST_OF_PARTS = "the list of the state's parts"


def alike(handlers: Mapping[str, StateHandler]) -> Pairs:
    """What has to be equal on all members: settings of the engine, the parts of the state in the
    order in which they are moved, tensors and their shapes."""
    values = knobs.resolve(os.environ)
    found = [(knob.environment[0], str(values[knob.field])) for knob in knobs.KNOBS if knob.alike]
    found.append((_LIST_OF_PARTS, ", ".join(handlers) or "none"))
    for name, handler in handlers.items():
        found += [(f"{name}.{part}", form) for part, form in handler.form().items()]
    return fitting(found)


def fingerprints(handlers: Mapping[str, StateHandler]) -> Pairs:
    """Checksums of samples of what training keeps equal on all members.

    Processors of different kinds round differently, so a name says which one has computed.
    """
    found: list[tuple[str, str]] = []
    for name, handler in handlers.items():
        for part, checksum in handler.fingerprints().items():
            found.append((f"{name}.{part} ({processor()})", checksum))
    return fitting(found[:_MOST_TENSORS])


def checksum(samples: Iterable[Any]) -> str:
    """Of bytes-like objects."""
    found = 0
    for sample in samples:
        found = zlib.crc32(sample, found)
    return f"{found:08x}"


@cache
def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            named = (line.split(":", 1)[1].strip() for line in lines if ":" in line
                     and line.split(":", 1)[0].strip() in ("model name", "CPU part"))  # fmt: skip
            return next(named, "unknown processor")
    except OSError:
        return "unknown processor"
