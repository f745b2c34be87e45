"""LocalSGD and DiLoCo: the user's optimizer, whose ranks make steps of their own and average
weights from time to time.

The optimizer is a DistributedOptimizer. It reduces gradients while its steps are synchronous, and
stops when they become local.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from hvdlite.adapter.local import schedule
from hvdlite.adapter.local.outer import Outer, OuterSGD
from hvdlite.adapter.local.schedule import Plan
from hvdlite.adapter.step import Options
from hvdlite.base.ops import Average
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.torch import scaling
from hvdlite.torch.strategies.averaging import Averaging
from hvdlite.torch.wrapping import distribute


class LocalSteps:
    """What LocalSGD and DiLoCo add to the class of a DistributedOptimizer."""

    _hvd: Any
    _hvd_local_steps: Averaging

    def step(self, closure: Callable[[], Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        """One optimization step of this rank, and an average of the weights if it is time."""
        averaging = self._hvd_local_steps
        averaging.before_step()
        loss = super().step(closure, *args, **kwargs)  # type: ignore[misc]
        if loss is not None:
            averaging.note(loss=loss)
        averaging.after_step()
        return loss

    step.hooked = True  # type: ignore[attr-defined]  # as Distributed.step

    def note(self, samples: int | None = None, loss: Any = None) -> None:
        """Tells what the next step has seen: so many samples, which weigh averages by time, and a
        loss, which adaptive=True needs. Without it a step counts as one sample."""
        self._hvd_local_steps.note(samples, loss)

    def sync(self) -> None:
        """Averages all weights now. All ranks call it: before they evaluate or save the model, at
        the end, and after hvd.join(). A rank that comes early takes part in the averages of the
        others until they are here, unless these are of fragments."""
        self._hvd_local_steps.sync()

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """As the optimizer's own."""
        self._hvd_local_steps.no_step_came()
        super().zero_grad(*args, **kwargs)  # type: ignore[misc]

    def _groups_for(self, scaler: Any) -> scaling.Groups:
        """A scaler finds this rank's own gradients. A step that it leaves out counts, and a rank
        without any gradient makes its step."""
        groups: scaling.Groups = super()._groups_for(scaler)  # type: ignore[misc]
        self._hvd_local_steps.is_looked_at(scaling.turn_of(scaler))
        if self._hvd.reducer is not None or scaling.gradients_of(groups):
            return groups
        return scaling.with_stand_in(groups, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """As the optimizer's own. Counts, and DiLoCo's outer state, are in the parameter groups."""
        self._hvd_local_steps.apply_early()
        state: dict[str, Any] = super().state_dict()  # type: ignore[misc]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the optimizer's own."""
        self._hvd_local_steps.drop()
        super().load_state_dict(state_dict)  # type: ignore[misc]
        self._hvd_local_steps.adopt()

    def _hvd_adopt(self) -> None:
        super()._hvd_adopt()  # type: ignore[misc]
        self._hvd_local_steps.adopt()

    def __repr__(self) -> str:
        return f"{type(self).__name__} ({self._hvd_local_steps.plan})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain: Any = super().__reduce_ex__(protocol)
        averaging = self._hvd_local_steps
        return _rebuild, (*plain, (averaging.plan, averaging.outer, averaging.momentum))


def LocalSGD(optimizer: torch.optim.Optimizer, every: int | str, start: int = 0,
             momentum: str = "local", adaptive: bool = False,
             named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
             process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """The optimizer, of the same class, whose ranks average their weights after every so many steps
    instead of their gradients in each.

    `every`: a number of steps, or a time such as "10s", after which each rank weighs as many
    samples as it has done. The first `start` steps are synchronous. `momentum`: what the optimizer
    remembers of gradients stays "local", or is averaged as well ("average"). With `adaptive` the
    interval shrinks from `every` with the root of the loss (AdaComm). See
    docs/guides/communicating-less.md.
    """
    plan = schedule.local_sgd(every, start, momentum, adaptive)
    options = Options(Average, 1.0, 1.0, process_set=process_set)
    wrapped = distribute(optimizer, named_parameters, options)
    return _with_local_steps(wrapped, plan, None, momentum)


def DiLoCo(inner: torch.optim.Optimizer, outer: Outer = OuterSGD(), every: int | str = 500,  # noqa: B008
           fragments: int = 1, overlap: int = 0, momentum: str = "local",
           named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
           process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """The inner optimizer, of the same class, whose ranks make `every` steps of their own; then
    `outer` makes a step with the average of what they have changed.

    With `fragments` one part of the model after the other is averaged, evenly spread over the
    steps. An average is applied `overlap` steps after it was started, and travels meanwhile.
    `momentum`: what the inner optimizer remembers of gradients stays "local", or begins anew behind
    each average ("reset").
    """
    plan = schedule.diloco(outer, every, fragments, overlap, momentum)
    options = Options(Average, 1.0, 1.0, process_set=process_set)
    wrapped = distribute(inner, named_parameters, options)
    return _with_local_steps(wrapped, plan, outer, momentum)


def _with_local_steps(wrapped: Any, plan: Plan, outer: Outer | None, momentum: str) -> Any:
    kind: Any = type(wrapped)
    wrapped.__class__ = type(kind.__name__, (LocalSteps, kind), {"__module__": kind.__module__})
    wrapped._hvd_local_steps = Averaging(wrapped, plan, outer, momentum)
    return wrapped


def _rebuild(rebuild: Callable[..., Any], arguments: tuple[Any, ...], own: tuple[Any, ...]) -> Any:
    """From a pickle. In a process without a job: the plain optimizer."""
    optimizer = rebuild(*arguments)
    return _with_local_steps(optimizer, *own) if hasattr(optimizer, "_hvd") else optimizer
