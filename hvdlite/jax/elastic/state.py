"""JaxState, and how its pytrees are copied, put back and moved to other ranks.

Arrays do not change, so that a list of them is as good as a copy, but for a step that has been
given their memory (donate_argnums).
"""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp

from hvdlite.elastic.handlers import StateHandler
from hvdlite.elastic.state import ObjectState, always
from hvdlite.jax import functions
from hvdlite.job import basics

Tree = Any
Leaf = Any

_DONATED = (
    "a step has been given the memory of arrays of this JaxState (donate_argnums), after steps "
    "that were not: pass copies='always' to JaxState"
)


class Snapshot:
    """A tree as it was. `copies`: its arrays are copied, because a step may take their memory."""

    def __init__(self, tree: Tree, copies: bool) -> None:
        leaves, self._structure = jax.tree_util.tree_flatten(tree)
        self._copies = copies
        self._leaves = [self._own(leaf) for leaf in leaves]

    def tree(self) -> Tree:
        """As often as it is asked for."""
        if is_donated(self._leaves):
            raise RuntimeError(_DONATED)
        return jax.tree_util.tree_unflatten(self._structure, map(self._own, self._leaves))

    def _own(self, leaf: Leaf) -> Leaf:
        if not isinstance(leaf, jax.Array):
            return copy.deepcopy(leaf)
        return jnp.copy(leaf) if self._copies else leaf


class TreeHandler(StateHandler):
    """Of a pytree with arrays.

    They are copied until the first boundary has shown whether the program donates its arrays.
    """

    def __init__(self, tree: Tree, copies_always: bool) -> None:
        super().__init__(tree)
        self._copies_always = copies_always
        self._donates: bool | None = None  # not known yet
        self._seen: list[jax.Array] = []  # when the last snapshot was made
        self._copy = self._kept = self._snapshot()

    def set_value(self, value: Tree) -> None:
        self.value = value

    def save(self) -> None:
        self._copy = self._snapshot()

    def restore(self) -> None:
        self.value = self._copy.tree()

    def sync(self, root_rank: int = 0) -> None:
        if not has_values(self.value):  # of a step that has failed
            self.value = self._kept.tree()
        leaves, structure = jax.tree_util.tree_flatten(self.value)
        arrays = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
        others = [i for i, leaf in enumerate(leaves) if not isinstance(leaf, jax.Array)]
        received = [
            *functions.broadcast_parameters([leaves[i] for i in arrays], root_rank),
            *functions.broadcast_object([leaves[i] for i in others], root_rank),
        ]
        for i, leaf in zip([*arrays, *others], received, strict=True):
            leaves[i] = leaf
        self.value = jax.tree_util.tree_unflatten(structure, leaves)

    def at_boundary(self) -> None:
        self._donates = self._donates or is_donated(self._seen)

    def keep(self) -> None:
        self._kept = self._snapshot()

    def put_back(self) -> None:
        self.value = self._kept.tree()

    def _snapshot(self) -> Snapshot:
        self._seen = arrays_of(self.value)
        return Snapshot(self.value, self._copies_always or self._donates is not False)


def arrays_of(tree: Tree) -> list[jax.Array]:
    return [leaf for leaf in jax.tree_util.tree_leaves(tree) if isinstance(leaf, jax.Array)]


def is_donated(leaves: list[Leaf]) -> bool:
    return any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)


def wait(tree: Tree) -> None:
    """Until the tree is computed. Raises what its computation has raised."""
    jax.block_until_ready(arrays_of(tree))


def has_values(tree: Tree) -> bool:
    try:
        wait(tree)
    except RuntimeError:  # of JAX: a computation has failed, or the arrays are donated
        return False
    return True


class JaxState(ObjectState):
    """Keywords are attributes: pytrees, what has a state_dict(), and objects.

    A pytree is given another value by assigning it: `state.params = params`. Without donated
    arguments step() and commit() copy no array, but keep those of then. `copies="always"` is for
    programs some of whose steps donate the state's arrays (donate_argnums); where all of them do,
    the state notices.
    """

    def __init__(self, *, copies: str = "auto", **kwargs: Any) -> None:
        self._always = always(copies)
        super().__init__(functions.broadcast_object, basics.rank, **kwargs)

    def _handler_of(self, value: Any) -> StateHandler | None:
        found = super()._handler_of(value)
        return TreeHandler(value, self._always) if found is None and arrays_of(value) else found

    def _at_boundary(self) -> None:
        # A step counts once it is done; JAX returns before that.
        wait([handler.value for handler in self._handlers.values()])
        super()._at_boundary()
