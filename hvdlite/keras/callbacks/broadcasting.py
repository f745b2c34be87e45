"""Ranks start with the same weights and the same optimizer."""

from __future__ import annotations

from typing import Any

from hvdlite.adapter.agreement.divergence import check_steps
from hvdlite.core.arrays.objects import allgather_object
from hvdlite.keras.callbacks.drift import DriftGuardCallback
from hvdlite.keras.host import build, is_variable, model_variables, variables_of
from hvdlite.keras.values import broadcast_variables
from hvdlite.keras.wrapping import come_together


class BroadcastGlobalVariablesCallback(DriftGuardCallback):
    """Gives all ranks the variables of the model and of the optimizer that `root_rank` has.

    Before the first step, if all of them exist by then on all ranks; else after it.
    `local_variables` stay as they are. Ranks that are about to make different numbers of steps are
    told so: they would wait for each other at the end. The weights are compared later: see
    DriftGuardCallback.
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__(_variables(local_variables))
        del device
        self.root_rank = root_rank
        self._done = False

    def register_local_var(self, var: Any) -> None:
        """This variable stays as it is."""
        self._local += _variables(var)

    def on_train_begin(self, logs: Any = None) -> None:
        """Broadcasts, if there is everything to broadcast."""
        super().on_train_begin(logs)
        self._done = False
        model = self.model
        come_together(model.optimizer)
        ready = bool(model.built)
        if ready:
            build(model.optimizer, model.trainable_variables)
        everyones = allgather_object(
            (ready, self.params.get("steps")), "BroadcastGlobalVariablesCallback"
        )
        check_steps([steps for _, steps in everyones])
        if all(ready for ready, _ in everyones):
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcasts, if that was not possible before."""
        if not self._done:
            self._broadcast()
        super().on_train_batch_end(batch, logs)

    def _broadcast(self) -> None:
        model = self.model  # on JAX this brings its variables up to date
        local = {id(v) for v in self._local}
        everything = model_variables(model) + variables_of(model.optimizer)
        broadcast_variables([v for v in everything if id(v) not in local], self.root_rank)
        self._done = True


def _variables(given: Any) -> list[Any]:
    variables = [] if given is None else given if isinstance(given, (list, tuple)) else [given]
    wrong = [v for v in variables if not is_variable(v)]
    if wrong:
        raise ValueError(f"local_variables must be variables, not {type(wrong[0]).__name__}")
    return list(variables)
