"""What DistributedOptimizer adds to the class of a Keras 3 optimizer.

Keras calls apply() on the TensorFlow and torch backends, and stateless_apply() on JAX, where the
whole step is a function of its state. Both reduce the gradients and hand them on, so that clipping,
weight decay, and the decision of a LossScaleOptimizer whether the step is taken, see the gradients
of all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from hvdlite.adapter.at_once import reduction
from hvdlite.adapter.at_once.reduction import Gradients, begin_memory, reduced
from hvdlite.adapter.compression import HasCompression
from hvdlite.adapter.step import HasLocal, Options
from hvdlite.base.ops import Sum
from hvdlite.keras.backends import Backend, chosen
from hvdlite.keras.flavour import KERAS, backend_name
from hvdlite.keras.host import prepared
from hvdlite.keras.wrapping import (
    handed_on,
    refuse_inside_loss_scaling,
    refuse_other_variables,
    take_variables,
    without,
)

Pair = tuple[Any, Any]  # (gradient, variable)

_OTHERWISE = (
    "Wrap it the other way round:\n"
    "    hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))\n"
    "That is done for you where keras.config.set_dtype_policy('mixed_float16') comes before "
    "hvd.DistributedOptimizer()."
)


class Distributed(HasLocal, HasCompression):
    """Its own data begin with _hvd. Nothing of them is saved: a file has the optimizer that was
    wrapped."""

    # Of the class, so that what from_config() makes of it is distributed as well.
    _hvd: Options
    _hvd_handing_on = False  # the gradients are reduced already
    # what compute_gradients() has given, until the next apply()
    _hvd_computed: Gradients | None = None
    _agg_helper: Accumulation | None = None  # Horovod's name for it
    _hvd_memory: Sequence[Any] = ()  # of the compression, where the optimizer has it

    # ---- what Keras calls

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """One optimization step with the gradients of all ranks."""
        if self._hvd_handing_on or len(grads) == 0:
            return super().apply(grads, trainable_variables)  # type: ignore[misc]
        if self._hvd_have_been_reduced(grads):
            return self._hvd_apply(grads, prepared(self, trainable_variables))
        variables = prepared(self, trainable_variables)
        if self._agg_helper is None:
            return self._hvd_apply(self._hvd_reduced(grads, variables), variables)
        held = self._agg_helper
        totals = held.plus(grads, variables)

        def communicate() -> None:
            self._hvd_apply(self._hvd_reduced(list(map(held.result, totals)), variables), variables)
            held.empty()

        def wait() -> None:
            held.keep(totals, variables)

        # where ops.cond() would trace both, and leave traces in the variables
        if backend_name() == "jax":
            (communicate if held.is_last() else wait)()
        else:
            KERAS.ops.cond(held.is_last(), communicate, wait)

    def stateless_apply(
        self, optimizer_variables: list[Any], grads: list[Any], trainable_variables: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """apply() as a function of the state."""
        refuse_other_variables(self, trainable_variables)
        variables = self._trainable_variables  # type: ignore[attr-defined]
        plain = super().stateless_apply  # type: ignore[misc]

        def step(gradients: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            with self._hvd_with_state(optimizer_variables) as scope:
                gradients = self._hvd_reduced(gradients, variables)
                remembered = self._hvd_values(scope)
            with handed_on(self):
                weights, state = plain(remembered, gradients, trainable_variables)
            return list(weights), list(state)

        if self._agg_helper is None:
            return step(grads)
        held = self._agg_helper
        with self._hvd_with_state(optimizer_variables):
            is_last = held.is_last()
            totals = held.plus(grads, variables)

        def communicate() -> tuple[list[Any], list[Any]]:
            weights, state = step(list(map(held.result, totals)))
            return weights, self._hvd_state_after(held.empty, state)

        def wait() -> tuple[list[Any], list[Any]]:
            state = self._hvd_state_after(lambda: held.keep(totals, variables), optimizer_variables)
            return list(trainable_variables), state

        result: tuple[list[Any], list[Any]] = KERAS.ops.cond(is_last, communicate, wait)
        return result

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the optimizer's variables."""
        refuse_inside_loss_scaling("DistributedOptimizer", _OTHERWISE)
        super().build(variables)  # type: ignore[misc]
        take_variables(self)
        self._hvd_accumulate()

    # ---- files: those of the plain optimizer

    def save_own_variables(self, store: Any) -> None:
        """As the optimizer's own."""
        with self._hvd_undressed():
            super().save_own_variables(store)  # type: ignore[misc]

    def load_own_variables(self, store: Any) -> None:
        """As the optimizer's own."""
        with self._hvd_undressed():
            super().load_own_variables(store)  # type: ignore[misc]

    # ---- Horovod's

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[Pair]:
        """The gradients of all ranks, with their variables; apply_gradients() does not reduce them
        again. With op=Sum this goes for the next apply_gradients(), whatever it is given; else for
        these gradients, and an average of what ranks have changed in the same way is that. With
        backward_passes_per_step > 1 they are this rank's, and apply_gradients() adds and reduces
        them.

        `loss`: a function, or with `tape` a tensor that the tape has recorded. On TensorFlow's
        backend.
        """
        variables = list(var_list() if callable(var_list) else var_list)
        gradients: Gradients = _by_tape(self, loss, variables, tape)
        if self._hvd.passes == 1:
            gradients = self._hvd_reduced(gradients, variables)
            # not tracked: it belongs to one step
            object.__setattr__(self, "_hvd_computed", gradients)
        return list(zip(gradients, variables, strict=True))

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[Pair]:
        del grad_loss
        return self.compute_gradients(loss, var_list, tape)

    # ---- inside

    def _hvd_have_been_reduced(self, grads: Sequence[Any]) -> bool:
        computed = self._hvd_computed
        if computed is None:
            return False
        object.__setattr__(self, "_hvd_computed", None)
        if self._hvd.op == Sum:  # a second sum would be another one
            return True
        return len(grads) == len(computed) and all(
            a is b for a, b in zip(grads, computed, strict=True)
        )

    def _hvd_apply(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        with handed_on(self):
            super().apply(gradients, variables)  # type: ignore[misc]

    def _hvd_reduced(self, gradients: Sequence[Any], variables: Sequence[Any]) -> Gradients:
        backend = chosen()
        done: Gradients = backend.outside(
            reduced, self._hvd, backend, gradients, variables, self._hvd_local.ids()
        )
        return done

    def _hvd_accumulate(self) -> None:
        """Makes room for gradients that wait, once the variables are known."""
        if self._hvd.passes > 1 and self._agg_helper is None:
            variables = self._trainable_variables  # type: ignore[attr-defined]
            helper = Accumulation(self, variables, self._hvd, chosen())
            object.__setattr__(self, "_agg_helper", helper)  # untracked: TensorFlow would save it
        remembers = self._hvd.compression.method is not None
        if remembers and chosen().keeps_memory_in_optimizer and not self._hvd_memory:
            variables = self._trainable_variables  # type: ignore[attr-defined]
            cells = begin_memory(self._hvd, variables)
            object.__setattr__(self, "_hvd_memory", cells)
            for cell in cells:
                self._track_variable(cell)  # type: ignore[attr-defined]

    def _hvd_undressed(self) -> AbstractContextManager[None]:
        """In this context the optimizer has the variables of the plain one."""
        added = {id(variable) for variable in self._hvd_memory}
        if self._agg_helper is not None:
            added |= self._agg_helper.own
        return without(self, added)

    def _hvd_with_state(self, values: Sequence[Any]) -> Any:
        mapping = list(zip(self.variables, values, strict=True))  # type: ignore[attr-defined]
        return KERAS.StatelessScope(state_mapping=mapping)

    def _hvd_state_after(self, change: Callable[[], None], values: Sequence[Any]) -> list[Any]:
        with self._hvd_with_state(values) as scope:
            change()
        return self._hvd_values(scope)

    def _hvd_values(self, scope: Any) -> list[Any]:
        return [scope.get_current_value(v) for v in self.variables]  # type: ignore[attr-defined]


# ---- the sums of several passes: variables of the optimizer, because on JAX a step has no other
# memory. They are not saved with the optimizer, so that a file fits the plain optimizer.


class Accumulation(reduction.Accumulation):
    def __init__(
        self, optimizer: Any, variables: Sequence[Any], options: Options, backend: Backend
    ) -> None:
        super().__init__(backend, options.passes, options.average_passes, options.sparse_as_dense)
        self._optimizer = optimizer
        self._number_of = {id(variable): i for i, variable in enumerate(variables)}
        before = len(optimizer._variables)
        #: how many passes are in the sums
        self.counter = optimizer.add_variable((), "zeros", "int32", name="passes")
        self._sums = [
            optimizer.add_variable_from_reference(v, name="sum_of_gradients") for v in variables
        ]
        #: the identities of these variables, which files do not have
        self.own = {id(variable) for variable in optimizer._variables[before:]}

    def is_last(self) -> Any:
        """Whether this pass ends the step; a tensor."""
        return KERAS.ops.equal(self.counter, self.passes - 1)

    def plus(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The sums with those of this pass, in the order of `variables`."""
        totals = []
        for gradient, variable in zip(map(self.dense, gradients), variables, strict=True):
            held = self._sums[self._number_of[id(variable)]]
            totals.append(held.value if gradient is None else KERAS.ops.add(held.value, gradient))
        return totals

    def keep(self, totals: Sequence[Any], variables: Sequence[Any]) -> None:
        """The pass ends without a reduction."""
        for total, variable in zip(totals, variables, strict=True):
            self._sums[self._number_of[id(variable)]].assign(total)
        self.counter.assign_add(1)
        # Horovod's optimizers count every pass, and so do schedules of the learning rate.
        getattr(self._optimizer, "inner_optimizer", self._optimizer)._iterations.assign_add(1)

    def empty(self) -> None:
        """The sums are reduced: the next pass begins a step."""
        for held in self._sums:
            held.assign(KERAS.ops.zeros_like(held.value))
        self.counter.assign(0)


# ---- the gradients of a loss by TensorFlow's tape, as Keras' older optimizers computed them


def _by_tape(optimizer: Any, loss: Any, variables: Sequence[Any], tape: Any) -> list[Any]:
    """This rank's. None for a variable on which the loss does not depend."""
    if backend_name() != "tensorflow":
        raise NotImplementedError(
            f"compute_gradients() needs TensorFlow's tape, but Keras' backend is {backend_name()}: "
            "compute gradients as that does, and give them to apply_gradients()"
        )
    if (
        isinstance(optimizer, KERAS.optimizers.LossScaleOptimizer)
        or optimizer.loss_scale_factor is not None
    ):
        raise NotImplementedError(
            "compute_gradients() does not scale the loss: compute the gradients of "
            "optimizer.scale_loss(loss) with a tape, and give them to apply_gradients()"
        )
    import tensorflow as tf

    if tape is None and not callable(loss):
        raise ValueError(
            "a loss that is a tensor needs the tape that has recorded it: compute_gradients(loss, "
            "variables, tape=tape)"
        )
    if callable(loss):
        tape = tf.GradientTape() if tape is None else tape
        with tape:
            loss = loss()
    return list(tape.gradient(loss, variables))
