"""LARS for Keras: each layer's learning rate follows the ratio of its weights to its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.adapter.strategy.options import Choice
from hvdlite.adapter.strategy.support import Replacement, chosen_replacement
from hvdlite.keras.flavour import KERAS, LEGACY
from hvdlite.keras.wrapping import refuse_twice

ops: Any = getattr(KERAS, "ops", None)  # which tf_keras has not


@KERAS.saving.register_keras_serializable(package="hvdlite")
class LARS(KERAS.optimizers.Optimizer):  # type: ignore[misc, name-defined]
    """SGD with momentum for large batches (https://arxiv.org/abs/1708.03888).

    The learning rate of a layer is multiplied by trust * |w| / (|g| + weight_decay * |w|). In
    hvd.DistributedOptimizer() the norm is that of the reduced gradient. Variables of one dimension,
    which are biases and norm layers, and those whose path contains one of the words of `exclude`,
    have the plain rate and no weight decay.
    """

    def __init__(self, learning_rate: Any = 0.1, momentum: float = 0.9, weight_decay: float = 0.0,
                 trust: float = 0.001, nesterov: bool = False, exclude: Sequence[str] = (),
                 name: str = "lars", **kwargs: Any) -> None:  # fmt: skip
        if LEGACY:
            raise TypeError("hvd.LARS needs Keras 3, and this program uses tf_keras")
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.momentum = momentum
        self.decay = weight_decay  # Keras' own is no part of the gradient
        self.trust = trust
        self.nesterov = nesterov
        self.exclude = list(exclude)

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the optimizer's variables."""
        if self.built:
            return
        super().build(variables)
        # add_optimizer_variables() came with Keras 3.10.
        self.momentums = [self.add_variable_from_reference(v, name="momentum") for v in variables]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """The step of one variable."""
        gradient = ops.cast(gradient, variable.dtype)
        update = gradient
        if self._is_adapted(variable):
            weights, slope = _norm(variable), _norm(gradient)
            sum_of_norms = slope + self.decay * weights
            rate = self.trust * weights / ops.where(sum_of_norms > 0, sum_of_norms, 1.0)
            usable = ops.logical_and(weights > 0, slope > 0)
            update = (gradient + self.decay * variable) * ops.where(usable, rate, 1.0)
        update = update * ops.cast(learning_rate, variable.dtype)
        velocity = self.momentums[self._get_variable_index(variable)]
        self.assign(velocity, velocity * self.momentum + update)
        if self.nesterov:
            update = update + self.momentum * velocity
        self.assign_sub(variable, update if self.nesterov else velocity)

    def get_config(self) -> dict[str, Any]:
        """What from_config() takes."""
        config: dict[str, Any] = super().get_config()
        own = {
            "momentum": self.momentum,
            "weight_decay": self.decay,
            "trust": self.trust,
            "nesterov": self.nesterov,
            "exclude": self.exclude,
        }
        return {**config, **own}

    def _is_adapted(self, variable: Any) -> bool:
        path = str(getattr(variable, "path", variable.name))
        return len(variable.shape) > 1 and not any(word in path for word in self.exclude)


def _norm(tensor: Any) -> Any:
    return ops.sqrt(ops.sum(ops.square(tensor)))


def replacement(optimizer: Any, choice: Choice) -> Any:
    """The optimizer that takes the place of another one, as a strategy says."""
    refuse_twice(optimizer)
    known = KERAS.optimizers
    replacements = {"lars": Replacement(LARS, (known.SGD,), ())}
    if hasattr(known, "Lamb"):
        replacements["lamb"] = Replacement(known.Lamb, (known.Adam, known.AdamW), ("amsgrad",))
    config = optimizer.get_config()
    kind = chosen_replacement(
        choice, optimizer, replacements, [config], has_trained=getattr(optimizer, "built", False)
    )
    config = {name: value for name, value in config.items() if name not in ("name", "amsgrad")}
    if choice.name == "lars":  # which has its own weight decay
        config["weight_decay"] = config["weight_decay"] or 0.0
    return kind.from_config({**config, **dict(choice.options)})
