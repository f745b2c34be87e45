"""The class that DistributedOptimizer adds to an optimizer's."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from hvdlite.adapter.compression import HasCompression
from hvdlite.adapter.hooks.shared import Shared
from hvdlite.torch import optimizer_state
from hvdlite.torch.scaling import ReadByScalers, turn_of

_AGAIN = (
    "optimizer.step() called without optimizer.skip_synchronize() context after "
    "optimizer.synchronize(). The gradients are reduced a second time. Write: with "
    "optimizer.skip_synchronize(): optimizer.step()"
)
_RACE = (
    "optimizer.zero_grad() between backward() and step() would clear gradients that are being "
    "reduced. Call it before backward(), or after step() or synchronize()."
)
CLOSURE = (
    "this optimizer evaluates its closure more than once per step. Each evaluation would have to "
    "agree between ranks; "
    "hvdlite supports optimizers that evaluate it once (all of torch.optim but LBFGS)."
)


class Distributed(HasCompression, ReadByScalers):
    """What DistributedOptimizer adds to an optimizer's class. Its own data are in `_hvd`."""

    _hvd: Shared
    _parameter_names: dict[torch.Tensor, str]

    # ---- the step

    def step(self, closure: Callable[[], Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        """One optimization step with the gradients of all ranks."""
        shared = self._hvd
        if closure is not None:
            if shared.synchronizes:
                closure = self._reducing(closure)
            return super().step(closure, *args, **kwargs)  # type: ignore[misc]
        if shared.synchronizes:
            if shared.synchronized == "by the program":
                warnings.warn(_AGAIN, stacklevel=2)
            if shared.synchronized != "by a scaler":
                shared.synchronize()
        shared.synchronized = ""
        return super().step(*args, **kwargs)  # type: ignore[misc]

    step.hooked = True  # type: ignore[attr-defined]  # torch would run the hooks of a step twice, here and in super()

    def _reducing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        calls = 0

        def reduced() -> Any:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise RuntimeError(CLOSURE)
            loss = closure()
            self._hvd.synchronize()
            self._hvd.synchronized = ""
            return loss

        return reduced

    def synchronize(self) -> None:
        """Waits until all gradients are reduced: to clip or change them before the step."""
        self._hvd.synchronize()
        self._hvd.synchronized = "by the program"

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """In this context step() does not reduce: for after synchronize()."""
        self._hvd.synchronizes = False
        try:
            yield
        finally:
            self._hvd.synchronizes = True

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """As the optimizer's own."""
        if self._hvd.under_way:
            raise AssertionError(_RACE + self._hvd.why_too_early())
        self._hvd.synchronized = ""
        super().zero_grad(*args, **kwargs)  # type: ignore[misc]

    def set_backward_passes_per_step(self, passes: int) -> None:
        """From now on so many backward passes belong to a step."""
        self._hvd.set_passes(passes)

    def may_differ(self, parameters: Iterable[torch.Tensor]) -> None:
        """These parameters differ between ranks on purpose: the drift guard leaves them out. Call
        it on all ranks."""
        if self._hvd.guard is not None:
            self._hvd.guard.leave_out(parameters)

    # ---- parameters and state

    @property
    def factored_parameters(self) -> list[str]:
        """The parameters whose sufficient factors travel; none before the end of the first step."""
        return list(getattr(self._hvd.reducer, "factored", ()))

    def _hvd_is_under_way(self) -> bool:
        return self._hvd.under_way

    def _groups_for(self, scaler: Any) -> list[dict[str, Any]]:
        """A scaler must find reduced gradients, also where this rank had none, or ranks would
        differ about the step."""
        self._hvd.meet(turn_of(scaler))
        groups: list[dict[str, Any]] = self.__dict__["param_groups"]
        return groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As the optimizer's own; the new parameters are reduced from now on."""
        super().add_param_group(param_group)  # type: ignore[misc]
        self._hvd_adopt()

    def _hvd_adopt(self) -> None:
        """Names the parameters that are new, and has their gradients reduced."""
        groups: list[dict[str, Any]] = self.__dict__["param_groups"]
        self._hvd.adopt(self._parameter_names, [g["params"] for g in groups], _own_names(groups))

    def state_dict(self) -> dict[str, Any]:
        """As the optimizer's own, with the memory of the compression if it has one."""
        state: dict[str, Any] = super().state_dict()  # type: ignore[misc]
        memory = self._hvd.compression.state_dict()
        return {**state, "compression": memory} if memory else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the optimizer's own. Reductions under way are forgotten."""
        self._hvd.forget()
        memory = state_dict.get("compression")
        if memory is not None:
            self._hvd.compression.load_state_dict(memory)
            state_dict = {key: value for key, value in state_dict.items() if key != "compression"}
        shared = optimizer_state.Containers(self)
        super().load_state_dict(state_dict)  # type: ignore[misc]
        shared.take_from(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        base = _distributed_by(type(self))
        pairs = None
        if self._hvd.named:
            pairs = [(name, parameter) for parameter, name in self._parameter_names.items()]
        own = torch.optim.Optimizer.__getstate__(self)  # type: ignore[arg-type]
        return self._hvd.rebuild, (base, own, pairs, self._hvd.options.arguments())


def refuse_twice(optimizer: Any) -> None:
    if isinstance(optimizer, Distributed):
        raise ValueError("the optimizer is a DistributedOptimizer already")


def _own_names(param_groups: Sequence[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Names that the optimizer was given itself (torch >= 2.6)."""
    if not all("param_names" in group for group in param_groups):
        return []
    return [
        pair
        for group in param_groups
        for pair in zip(group["param_names"], group["params"], strict=True)
    ]


def _distributed_by(kind: type) -> type:
    """The class of the optimizer that was distributed."""
    return next(
        k
        for k in kind.__mro__
        if issubclass(k, torch.optim.Optimizer) and not issubclass(k, Distributed)
    )
