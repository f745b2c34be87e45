"""Compressors with memory.

A Method decides for each tensor which Part takes care of it. A Part is a pure function with a
state: `rounds` is a generator that yields what the ranks exchange and receives what comes back. At
the end it returns the sum of all ranks' tensors, or what stands for it, and the new state. So one
description serves gradients that travel one by one, those that travel together, and compiled
programs; and a test runs all ranks in one thread.
"""

from __future__ import annotations

import fnmatch
import warnings
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.casts import Compressor
from hvdlite.core.process_sets import ProcessSet

State = dict[str, Array]


class Sum(NamedTuple):
    """Comes back as the sum of all ranks' arrays. `last`: or Scaled, because nothing but the result
    is made of it."""

    array: Array
    last: bool = False


class Gather(NamedTuple):
    """Each array comes back with a first dimension more: that of the ranks."""

    arrays: Sequence[Array]


class Encoded(NamedTuple):
    """Comes back as two arrays: the sum of all ranks' arrays, by a codec of the core, and the new
    residual. A residual is added before, and has afterwards what was lost; None: that is forgotten.
    """

    array: Array
    residual: Array | None
    codec: str
    parameter: float
    seed: int
    step: Array  # a number: with the seed, what a codec that rounds at random draws by


class Momentum(NamedTuple):
    """That of SGD, on one rank."""

    factor: float
    nesterov: bool

    def after(self, flat: Array, velocity: Array) -> tuple[Array, Array]:
        """The new velocity, and the step that it asks for."""
        if self.nesterov:
            velocity = (velocity + flat) * self.factor
            return velocity, velocity + flat
        velocity = velocity * self.factor + flat
        return velocity, velocity


class Largest(NamedTuple):
    """Comes back as the sum of what all ranks send, and the memory after it. Each rank adds its
    memory to its tensor, sends so many of the largest `elements`, and remembers the others. A step
    in which some rank has sent NaN or Inf does not enter the memory."""

    flat: Array
    state: State  # a "residual", and with momentum a "velocity"
    elements: int
    momentum: Momentum | None = None
    masking: bool = False  # what is sent loses its momentum


class Scaled(NamedTuple):
    """A sum of all ranks' tensors that has been multiplied by the operation's factor already."""

    array: Array


Round = Sum | Gather | Encoded | Largest
Total = Array | Scaled
Rounds = Generator[Round, Any, tuple[Total, State]]


class Part:
    """The algorithm of one tensor."""

    #: this rank adds it to the tensor, which is then sent as it is
    momentum: Momentum | None = None
    #: a step whose result is no finite number must not enter the memory
    guarded = True

    def begin(self, algebra: Algebra, flat: Array) -> State:
        """The state before the first step, for a tensor in one dimension."""
        return {}

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        """What the ranks exchange in a step."""
        raise NotImplementedError


class Dense(Part):
    """Sends the tensor as it is."""

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        total = yield Sum(flat)
        return total, state


DENSE = Dense()


class DenseMomentum(Part):
    """Sends the tensor as it is, once this rank has added its momentum."""

    momentum: Momentum

    def __init__(self, momentum: Momentum) -> None:
        self.momentum = momentum

    def begin(self, algebra: Algebra, flat: Array) -> State:
        return {"velocity": algebra.zeros((algebra.count(flat),), flat)}

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        velocity, step = self.momentum.after(flat, state["velocity"])
        total = yield Sum(step, last=True)
        return total, {"velocity": velocity}


class Method(Compressor):
    """A compressor with memory. Its memory has an entry for each tensor, by the tensor's name.

    `skip`: patterns of names (as in a shell) whose tensors stay dense. So do biases and norms: only
    tensors of two and more dimensions are compressed.
    """

    #: the momentum that the method carries itself, so that the optimizer must have none
    momentum = 0.0

    def __init__(self, algebra: Callable[[], Algebra], skip: str | Sequence[str] = ()) -> None:
        self._algebra = algebra
        self._skip = [skip] if isinstance(skip, str) else list(skip)
        self._memory: dict[str, dict[str, Any]] = {}  # cells
        self._shapes: dict[str, tuple[int, ...]] = {}  # those that the memory belongs to
        self.spare: dict[str, State] = {}  # memory of before the last step: no fresh pages
        self._ranks = 0
        self.steps: dict[str, int] = {}  # that each tensor has made
        self._loaded: dict[str, dict[str, Any]] = {}  # and not asked for so far
        self._owner: weakref.ref[object] | None = None

    # ---- what a method decides

    def part(self, name: str, shape: Sequence[int]) -> Part:
        """What takes care of this tensor. A name ends at the first #: what follows tells apart
        tensors of the same name."""
        taken = self.takes(name.partition("#")[0], shape)
        return self.compressing(shape) if taken else self.dense()

    def takes(self, name: str, shape: Sequence[int]) -> bool:
        """Whether this tensor is compressed."""
        return len(shape) >= 2 and not any(fnmatch.fnmatch(name, pattern) for pattern in self._skip)

    def compressing(self, shape: Sequence[int]) -> Part:
        """For tensors that are compressed."""
        raise NotImplementedError

    def dense(self) -> Part:
        """For all others."""
        return DENSE

    def probe(self, shape: Sequence[int]) -> Part:
        """As compressing(), for a measurement with arrays of numpy's."""
        return self.compressing(shape)

    def changes(self) -> str:
        """What changes from step to step, as the program has written it; empty if nothing does. A
        compiled program cannot follow."""
        return ""

    def decide_now(self, process_set: ProcessSet) -> None:
        """For a method that chooses among others: before a step that is compiled, and before an
        operation by itself. All members of the set call it."""

    def stepped(self, process_set: ProcessSet) -> bool:
        """The same after each step that is not compiled. Whether parts may differ in the
        next step."""
        return False

    # ---- its memory

    @property
    def algebra(self) -> Algebra:
        return self._algebra()

    def state_of(self, name: str, flat: Array, shape: Sequence[int], ranks: int) -> State:
        """The memory of a tensor, which begins when it is asked for."""
        self._belong_to(ranks)
        algebra = self.algebra
        self.check_compiled()
        if self._shapes.get(name) != tuple(shape):
            self._shapes[name] = tuple(shape)
            self.spare.pop(name, None)
            with algebra.outside():
                state = self.part(name, shape).begin(algebra, flat)
                kept = self._loaded.pop(name, {})
                state = self._restored(kept, state) if kept else state
                self._memory[name] = {key: algebra.cell(value) for key, value in state.items()}
        return {key: algebra.read(cell) for key, cell in self._memory[name].items()}

    def cells(self, name: str) -> list[Any]:
        """What holds the memory of a tensor."""
        return list(self._memory[name].values())

    def serve(self, owner: object) -> None:
        """From now on the memory is that of this owner's tensors."""
        before = self._owner() if self._owner is not None else None
        if before is not None and before is not owner:
            raise ValueError(
                f"{self} has the memory of another optimizer's gradients: make one for each "
                "optimizer"
            )
        self._owner = weakref.ref(owner)

    def check_compiled(self) -> None:
        """A ValueError if a program is being compiled that cannot follow what changes."""
        if self.changes() and self.algebra.is_tracing():
            raise ValueError(
                f"{self.changes()} changes how gradients travel from step to step, and a compiled "
                "step cannot follow: leave it out, or do not compile the step"
            )

    def keep(self, name: str, state: State) -> None:
        """The memory after a step."""
        self.steps[name] = self.steps.get(name, 0) + 1
        cells = self._memory[name]
        for key, value in state.items():
            cells[key] = self.algebra.write(cells[key], value)

    def _restored(self, kept: dict[str, Any], state: State) -> State:
        """What a checkpoint has kept, if it is of this shape."""
        algebra = self.algebra
        if kept.keys() != state.keys():
            return state
        found = {key: algebra.constant(kept[key], value) for key, value in state.items()}
        if any(algebra.count(found[key]) != algebra.count(state[key]) for key in state):
            return state
        return {key: algebra.reshaped(found[key], tuple(state[key].shape)) for key in state}

    def _belong_to(self, ranks: int) -> None:
        if self._ranks not in (0, ranks) and (self._memory or self._loaded):
            warnings.warn(
                f"the number of ranks has changed from {self._ranks} to {ranks}: the memory of "
                f"{self} begins anew with zeros",
                stacklevel=2,
            )
            self._memory, self._loaded, self._shapes, self.spare = {}, {}, {}, {}
        self._ranks = ranks

    def state_dict(self) -> dict[str, Any]:
        """The memory, for a checkpoint. It is this rank's own."""
        memory = {
            name: {key: self.algebra.copied(self.algebra.read(c)) for key, c in cells.items()}
            for name, cells in self._memory.items()
            if cells
        }
        return {
            "ranks": self._ranks,
            "steps": dict(self.steps),
            "memory": {**self._loaded, **memory},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The reverse. The memory of another number of ranks is dropped when it is asked for."""
        self._memory, self._shapes, self.spare = {}, {}, {}
        self._loaded = {name: dict(kept) for name, kept in state["memory"].items()}
        self._ranks = state["ranks"]
        self.steps = dict(state["steps"])

    def __getstate__(self) -> dict[str, Any]:
        own: dict[str, Any] = {"_memory": {}, "_shapes": {}, "spare": {}, "_owner": None}
        return {**self.__dict__, **own, "_saved": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state.pop("_saved")
        self.__dict__.update(state)
        self.load_state_dict(saved)

    def __repr__(self) -> str:
        return type(self).__name__.lower()


def rounds_of(part: Part, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
    """A part's, guarded."""
    rounds = part.rounds(algebra, flat, state, ranks)
    return _guarded(rounds, algebra, state) if part.guarded else rounds


def _guarded(rounds: Rounds, algebra: Algebra, state: State) -> Rounds:
    total, new = yield from rounds
    if not new:
        return total, new
    array = total.array if isinstance(total, Scaled) else total
    fine = algebra.is_finite(algebra.total(array))
    return total, {key: algebra.chosen(fine, value, state[key]) for key, value in new.items()}


def share_of(algebra: Algebra, flat: Array, density: float) -> int:
    """How many elements are the fraction `density`."""
    return max(1, round(density * algebra.count(flat)))


def check_fraction(name: str, value: float) -> float:
    """A ValueError unless it is above 0 and at most 1."""
    if not 0.0 < value <= 1.0:
        raise ValueError(f"{name}={value} is not possible: it must be above 0 and at most 1")
    return float(value)
