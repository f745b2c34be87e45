"""The class that DistributedOptimizer adds to an optimizer's, and how ranks get one state."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from hvdlite.adapter.compression import HasCompression
from hvdlite.adapter.containers import mapped
from hvdlite.adapter.hooks.reducer import Reduction
from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.core.engine import is_root
from hvdlite.torch.ops import OPS
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

    _hvd: Reduction
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
        self._hvd.synchronize_once(turn_of(scaler))
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
        shared = Containers(self)
        super().load_state_dict(state_dict)  # type: ignore[misc]
        shared.take_from(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        base = users_class(type(self))
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


def users_class(kind: type) -> Any:
    """The class of the optimizer that is distributed: it comes behind a library's classes and
    ours."""
    plain = torch.optim.Optimizer
    for each in kind.__mro__[1:]:
        if issubclass(each, plain) and each is not plain and not issubclass(each, Distributed):
            return each
    raise TypeError(
        f"{kind.__name__} has no optimizer of torch among its bases: put one beside "
        "_DistributedOptimizer"
    )


# ---- an optimizer's state: from one rank to all others, and from an optimizer to its wrapper
#
# The root describes its state without the tensors' contents. The others build the same out of what
# they have, and the contents follow, in place: for any optimizer, whichever ranks have made a step.


@dataclass(frozen=True)
class _Described:
    """A tensor without its contents."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    on_host: bool  # a counter on the CPU stays there although the parameter is on a device


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None
) -> None:
    """Gives all ranks the optimizer state and the options (learning rate, ...) of `root_rank`.

    `model` is accepted for Horovod's sake. Parameters without a gradient get one of zeros if the
    optimizer has made no step here, as in Horovod.
    """
    del model
    if not optimizer.state:
        for parameter in _parameters(optimizer):
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
    broadcast(optimizer, root_rank)


def broadcast(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """The same, and gradients stay as they are."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "cannot broadcast torch.optim.LBFGS state: it depends on the closure of each rank"
        )
    tensors: list[torch.Tensor] = []
    sends = is_root(root_rank)
    described = _describe(optimizer, tensors) if sends else None
    described = broadcast_object(described, root_rank, "broadcast_optimizer_state")
    if not sends:
        tensors = _rebuild(optimizer, described)
    names = [f"broadcast_optimizer_state.{i}" for i in range(len(tensors))]
    OPS.broadcast_all(tensors, names, root_rank, in_place=True)
    getattr(optimizer, "_hvd_adopt", bool)()


class Containers:
    """The groups and the state of an optimizer, which stay where others look for them when it loads
    a checkpoint.

    torch puts others in their place. Then a schedule that was made before the optimizer was wrapped
    would go on with what no longer trains anything.
    """

    def __init__(self, optimizer: Any) -> None:
        self._groups: list[dict[str, Any]] = optimizer.__dict__["param_groups"]
        self._state: dict[Any, Any] = optimizer.__dict__["state"]

    def take_from(self, optimizer: Any) -> None:
        """Gets what the optimizer has loaded, and takes its place there."""
        groups, state = optimizer.__dict__["param_groups"], optimizer.__dict__["state"]
        if groups is not self._groups:
            for mine, loaded in zip(self._groups, groups, strict=False):
                if mine is not loaded:
                    mine.clear()
                    mine.update(loaded)
            self._groups[:] = [*self._groups[: len(groups)], *groups[len(self._groups) :]]
            optimizer.__dict__["param_groups"] = self._groups
        if state is not self._state:
            self._state.clear()
            self._state.update(state)
            optimizer.__dict__["state"] = self._state


def share(optimizer: torch.optim.Optimizer) -> None:
    """Has an optimizer keep its containers when it loads a checkpoint itself, where torch tells
    when that is."""
    register = getattr(optimizer, "register_load_state_dict_post_hook", None)
    if register is not None and not optimizer.__dict__.get("_hvd_shares"):
        optimizer.__dict__["_hvd_shares"] = True
        register(Containers(optimizer).take_from, prepend=True)


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _describe(optimizer: torch.optim.Optimizer, tensors: list[torch.Tensor]) -> Any:
    """The root's side. `tensors` gets what the description leaves out, in its order."""
    number_of = {id(p): i for i, p in enumerate(_parameters(optimizer))}

    def described(value: Any, _: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout != torch.strided:
            raise ValueError("sparse tensors in an optimizer's state cannot be broadcast")
        tensors.append(value.detach())
        return _Described(tuple(value.shape), value.dtype, value.is_cpu)

    state = {
        number_of.get(id(key), key): mapped(value, described)
        for key, value in optimizer.state.items()
    }
    groups = [
        {k: mapped(v, described) for k, v in group.items() if k != "params"}
        for group in optimizer.param_groups
    ]
    return {"parameters": len(number_of), "state": state, "groups": groups}


def _rebuild(optimizer: torch.optim.Optimizer, described: Any) -> list[torch.Tensor]:
    """The other ranks' side: makes the state as described; returns the tensors whose contents are
    to come."""
    parameters = _parameters(optimizer)
    roots = described["parameters"], len(described["groups"])
    own_counts = len(parameters), len(optimizer.param_groups)
    if roots != own_counts:
        raise ValueError(
            f"the root's optimizer has {roots[0]} parameters in {roots[1]} groups, this rank's "
            f"{own_counts[0]} in {own_counts[1]}: build the same model and optimizer on all ranks"
        )
    tensors: list[torch.Tensor] = []

    def built(like: torch.Tensor | None, value: Any, own: Any) -> Any:
        if not isinstance(value, _Described):
            return value
        same = (
            isinstance(own, torch.Tensor)
            and tuple(own.shape) == value.shape
            and own.dtype == value.dtype
        )
        if not same:
            device = None if value.on_host or like is None else like.device
            own = torch.empty(value.shape, dtype=value.dtype, device=device)
        tensors.append(own.detach())
        return own

    state = {}
    for key, value in described["state"].items():
        parameter = parameters[key] if isinstance(key, int) else None
        own_key = key if parameter is None else parameter
        state[own_key] = mapped(value, partial(built, parameter), optimizer.state.get(own_key))
    optimizer.state.clear()
    optimizer.state.update(state)
    for group, told in zip(optimizer.param_groups, described["groups"], strict=True):
        for key in told:
            group[key] = mapped(told[key], partial(built, None), group.get(key))
    return tensors
