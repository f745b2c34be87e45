"""1-bit Adam for Keras: once the second moment has converged, ranks exchange the signs of their
momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.adapter import names
from hvdlite.adapter.at_once.reduction import begin_memory, reduced, reduced_if
from hvdlite.adapter.compression import CompressionAdapter
from hvdlite.adapter.compression.codecs import sign
from hvdlite.adapter.step import Options
from hvdlite.base.ops import Average
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.keras.backends import chosen as chosen_backend
from hvdlite.keras.flavour import KERAS, LEGACY
from hvdlite.keras.host import prepared
from hvdlite.keras.wrapping import refuse_inside_loss_scaling, when, without

ops: Any = getattr(KERAS, "ops", None)  # which tf_keras has not


@KERAS.saving.register_keras_serializable(package="hvdlite")
class OneBitAdam(KERAS.optimizers.Optimizer):  # type: ignore[misc, name-defined]
    """Tang et al. 2021. For `freeze_step` steps it is keras.optimizers.Adam over the gradients of
    all ranks. Then the second moment stays as it is, and ranks average their first moments by 1 bit
    per number, with error feedback.

    It communicates by itself: it is not for hvd.DistributedOptimizer. `freeze_step` is usually 15
    to 20 % of all steps. Variables of one dimension stay dense.
    """

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999,
                 epsilon: float = 1e-7, weight_decay: float | None = None, freeze_step: int = 1000,
                 process_set: ProcessSet = global_process_set,
                 name: str = "onebit_adam") -> None:  # fmt: skip
        if LEGACY:
            raise TypeError("hvd.OneBitAdam needs Keras 3, and this program uses tf_keras")
        if freeze_step < 1:
            raise ValueError(f"freeze_step={freeze_step} is not possible: Adam has to begin")
        super().__init__(learning_rate=learning_rate, weight_decay=weight_decay, name=name)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.freeze_step = freeze_step
        backend = chosen_backend()
        self._hvd = Options(
            Average, 1.0, 1.0, process_set=process_set, scope=f"{names.scope()}onebit."
        )
        self._hvd_signs = Options(
            Average, 1.0, 1.0, CompressionAdapter(sign(lambda: backend.algebra)),
            process_set=process_set, scope=f"{self._hvd.scope}signs.",
        )  # fmt: skip
        self._hvd_memory: list[Any] = []  # of the signs, where the optimizer has it

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the optimizer's variables."""
        refuse_inside_loss_scaling(
            "OneBitAdam",
            "Train in mixed_bfloat16 or float32, or compile(..., auto_scale_loss=False)",
        )
        if self.built:
            return
        super().build(variables)
        add = self.add_variable_from_reference
        own = [(add(v, name="momentum"), add(v, name="velocity")) for v in variables]
        self.momentums = [momentum for momentum, _ in own]
        self.velocities = [velocity for _, velocity in own]
        if chosen_backend().keeps_memory_in_optimizer and self._hvd.takes_part():
            self._hvd_memory = begin_memory(self._hvd_signs, variables)
            for cell in self._hvd_memory:
                self._track_variable(cell)

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """One step of all ranks."""
        if len(grads) == 0:
            return
        variables = prepared(self, trainable_variables)
        grads = chosen_backend().outside(self._exchanged, grads, variables)
        super().apply(grads, variables)

    def _exchanged(self, grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Averages the gradients until Adam freezes, and from then on the momentum."""
        is_frozen = self._is_frozen()
        if chosen_backend().dynamic and bool(is_frozen):
            return self._with_average_momentum(grads, variables)
        grads = reduced_if(
            ops.logical_not(is_frozen), self._hvd, chosen_backend(), grads, variables
        )
        when(is_frozen, lambda: self._average_momentum(grads, variables), self.variables)
        return grads

    def _average_momentum(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Each rank moves its momentum by its own gradient; then it is averaged by signs."""
        own = [
            None if gradient is None else self._own_momentum(gradient, variable)
            for gradient, variable in zip(gradients, variables, strict=True)
        ]
        means = reduced(self._hvd_signs, chosen_backend(), own, variables)
        for mean, variable in zip(means, variables, strict=True):
            if mean is not None:
                self._keep_momentum(mean, variable)

    def _with_average_momentum(
        self, gradients: Sequence[Any], variables: Sequence[Any]
    ) -> list[Any]:
        """The same where a rank may lack a gradient that others have: it counts as zeros."""
        backend = chosen_backend()
        zeros = [backend.zeros_like(variable) for variable in variables]
        own = [
            None if gradient is None else self._own_momentum(gradient, variable)
            for gradient, variable in zip(gradients, variables, strict=True)
        ]
        of_zeros = [
            self._own_momentum(zero, variable)
            for zero, variable in zip(zeros, variables, strict=True)
        ]
        means = reduced(self._hvd_signs, backend, own, variables, absent=of_zeros)
        given = list(gradients)
        for i, (mean, variable) in enumerate(zip(means, variables, strict=True)):
            if mean is not None:
                self._keep_momentum(mean, variable)
                given[i] = zeros[i] if given[i] is None else given[i]
        return given

    def _own_momentum(self, gradient: Any, variable: Any) -> Any:
        place = self._get_variable_index(variable)
        return self._where_gradients_were(self._moved(self.momentums[place], gradient), place)

    def _keep_momentum(self, mean: Any, variable: Any) -> None:
        place = self._get_variable_index(variable)
        self.momentums[place].assign(self._where_gradients_were(mean, place))

    def _where_gradients_were(self, momentum: Any, place: int) -> Any:
        """Where no gradient has ever been, a sign would make one."""
        return ops.where(self.velocities[place].value > 0, momentum, ops.zeros_like(momentum))

    def _moved(self, momentum: Any, gradient: Any) -> Any:
        return momentum + (ops.cast(gradient, momentum.dtype) - momentum) * (1 - self.beta_1)

    def _is_frozen(self) -> Any:
        return ops.greater_equal(self.iterations, self.freeze_step)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """The step of one variable: Adam's, whose moments stay once it is frozen."""
        dtype = variable.dtype
        place = self._get_variable_index(variable)
        momentum, velocity = self.momentums[place], self.velocities[place]
        gradient = ops.cast(gradient, dtype)
        is_frozen = self._is_frozen()
        squares = velocity + (ops.square(gradient) - velocity) * (1 - self.beta_2)
        self.assign(momentum, ops.where(is_frozen, momentum.value, self._moved(momentum, gradient)))
        self.assign(velocity, ops.where(is_frozen, velocity.value, squares))
        steps = ops.cast(self.iterations + 1, dtype)
        seen = ops.minimum(steps, float(self.freeze_step))  # by the second moment
        first = 1 - ops.power(ops.cast(self.beta_1, dtype), steps)
        second = 1 - ops.power(ops.cast(self.beta_2, dtype), seen)
        rate = ops.cast(learning_rate, dtype) * ops.sqrt(second) / first
        self.assign_sub(variable, rate * momentum / (ops.sqrt(velocity) + self.epsilon))

    # ---- files have no memory of the signs, which is a rank's own

    def save_own_variables(self, store: Any) -> None:
        """Without the memory of the signs."""
        with without(self, set(map(id, self._hvd_memory))):
            super().save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        """The reverse."""
        with without(self, set(map(id, self._hvd_memory))):
            super().load_own_variables(store)

    def get_config(self) -> dict[str, Any]:
        """What from_config() takes."""
        rate = super().get_config()["learning_rate"]
        return {
            "name": self.name,
            "learning_rate": rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "weight_decay": self.weight_decay,
            "freeze_step": self.freeze_step,
        }
