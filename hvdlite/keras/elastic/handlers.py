"""How a model and its optimizer are copied, put back and moved to other ranks."""

from __future__ import annotations

from typing import Any

from hvdlite.elastic.copies import Copy
from hvdlite.elastic.handlers import StateHandler
from hvdlite.keras import values
from hvdlite.keras.elastic import gate, on_jax
from hvdlite.keras.host import build, to_numpy, variables_of

Variables = list[Any]


class ModelHandler(StateHandler):
    """Of a model with its optimizer, its metrics and its seed generators.

    A step that fails behind the update gate has changed only what no optimizer updates. Where
    there is no gate, everything is kept at each boundary.
    """

    def __init__(self, model: Any, optimizer: Any) -> None:
        super().__init__(model)
        self._optimizer = optimizer
        if optimizer is not None:
            build(optimizer, model.trainable_variables)
        self._copy = Copy()
        self._kept = Copy()
        self._latest = self._copy

    # ---- copies

    def save(self) -> None:
        self._take_all(self._copy)

    def restore(self) -> None:
        self._put_back(self._copy)

    def keep(self) -> None:
        gate.GATE.close()
        if gate.guards(self._optimizer):
            _take(self._kept, self._not_updated())
        else:
            self._take_all(self._kept)

    def put_back(self) -> None:
        self._put_back(self._kept)

    def is_torn(self) -> bool:
        return gate.guards(self._optimizer) and gate.GATE.has_begun()

    def wait(self) -> None:
        """Until the step is computed. Raises what it has raised."""
        on_jax.bring_up_to_date(self.value, self._everything())

    # ---- other ranks

    def sync(self, root_rank: int = 0) -> None:
        """Metrics are each rank's own, and so are seeds. How far a seed has got is not."""
        if not on_jax.are_alive(self._everything()):
            self._put_back(self._latest)
        seeds = [(variable, to_numpy(variable).copy()) for variable in self._seeds()]
        values.broadcast_variables(self._shared(), root_rank)
        for variable, own in seeds:
            own[1:] = to_numpy(variable)[1:]
            variable.assign(own)

    # ---- inside

    def _take_all(self, copy: Copy) -> None:
        _take(copy, self._everything())
        self._latest = copy

    def _put_back(self, copy: Copy) -> None:
        on_jax.forget_step(self.value)
        for variable, array in copy.items():
            variable.assign(array)

    def _shared(self) -> Variables:
        updated = [] if self._optimizer is None else variables_of(self._optimizer)
        return [*self.value.variables, *updated]

    def _everything(self) -> Variables:
        shared = self._shared()
        known = {id(variable) for variable in shared}
        metrics = getattr(self.value, "metrics_variables", None)
        if metrics is None:
            metrics = [v for metric in self.value.metrics for v in metric.variables]
        return [*shared, *(v for v in metrics if id(v) not in known)]

    def _not_updated(self) -> Variables:
        """Moving averages, seeds and metrics; not weights that are frozen."""
        weights = {id(v) for layer in self.value._flatten_layers() for v in _weights(layer)}
        updated = {id(v) for v in variables_of(self._optimizer)}
        return [v for v in self._everything() if id(v) not in weights | updated]

    def _seeds(self) -> Variables:
        return [v for v in self.value.variables if "seed_generator_state" in v.name]


def _take(copy: Copy, variables: Variables) -> None:
    copy.take(variables, map(to_numpy, variables))


def _weights(layer: Any) -> Variables:
    """Those made to be trained, frozen or not."""
    found = getattr(layer, "_trainable_variables", None)
    return list(layer._trainable_weights if found is None else found)
