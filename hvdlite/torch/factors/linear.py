"""Linear layers: Watch sees them run, and FactoredLinear gives a reducer the factors of its
weight's gradient, which autograd does not compute then."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Linear
from torch.nn.functional import linear
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.weak import WeakTensorKeyDictionary

from hvdlite.adapter.local.factors import NOTHING, Seen
from hvdlite.torch import traced
from hvdlite.torch.gradients import GRADIENTS

if TYPE_CHECKING:
    from hvdlite.torch.factors.reducer import FactoringReducer

Take = Callable[[torch.Tensor, torch.Tensor], None]

_DIFFERENTIATED_TWICE = (
    "create_graph=True needs the gradient of each rank, and sufficient_factors sends its factors: "
    "leave sufficient_factors out"
)


# The reducer of each weight, and the weight's number there.
_takers: Any = WeakTensorKeyDictionary()


def lead(layer: Linear, taker: FactoringReducer, number: int) -> None:
    """From now on the factors of the layer's weight go to this reducer, as long as it takes them
    and no other reducer has the weight."""
    _takers[layer.weight] = weakref.ref(taker), number
    layer.__class__ = FactoredLinear


class FactoredLinear(Linear):
    """Computes the same. Copies and pickles are plain layers."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """As torch.nn.Linear."""
        take = self._take()
        if take is None:
            return super().forward(input)
        output: torch.Tensor = _Product.apply(input, self.weight, self.bias, take)  # type: ignore[no-untyped-call]
        return output

    def _take(self) -> Take | None:
        """Where the factors go; None: the weight gets its gradient by autograd."""
        weight = self.weight
        recorded = torch.is_grad_enabled() and weight.requires_grad
        if not recorded or traced.is_compiling() or torch._C._get_tracing_state():
            return None
        reference, number = _takers.get(weight, (None, 0))
        taker: FactoringReducer | None = reference and reference()
        if taker is None or GRADIENTS.owner(weight) is not taker:
            return None
        if GRADIENTS.has_other_hooks(weight):  # made since the choice: step() says so
            return None
        return partial(taker.take_factors, number) if taker.takes_factors(number) else None

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain, (), self.__dict__


def _plain() -> Linear:
    return Linear.__new__(Linear)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, take: Take
    ) -> torch.Tensor:
        output = linear(input, weight, bias)
        # Autocast computes in a narrower type, and so does the backward pass.
        ctx.save_for_backward(input.to(output.dtype), weight)
        ctx.kinds = input.dtype, None if bias is None else bias.dtype
        ctx.take = take
        return output

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(_DIFFERENTIATED_TWICE)
        input, weight = ctx.saved_tensors
        input_kind, bias_kind = ctx.kinds
        of_input = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_input = gradient.matmul(weight.to(gradient.dtype)).to(input_kind)
        inputs, outputs = input.reshape(-1, input.shape[-1]), gradient.reshape(-1, weight.shape[0])
        if ctx.needs_input_grad[2]:
            of_bias = outputs.sum(0).to(bias_kind)
        where = _destination(ctx.next_functions[1][0])
        if where == "caller":
            of_weight = outputs.t().mm(inputs).to(weight.dtype)
        elif where == "step":
            # A copy, because a program may overwrite its batch before the step.
            ctx.take(inputs.clone(), outputs)
        return of_input, of_weight, of_bias, None


def _destination(accumulates: Any) -> str:
    """What becomes of the weight's gradient: it is for the step, or autograd.grad() returns it to
    its caller, or this pass does not ask for it."""
    try:
        return "step" if torch._C._will_engine_execute_node(accumulates) else "nowhere"
    except RuntimeError:  # torch says so of a leaf that is passed to autograd.grad()
        return "caller"


# ---- which linear layers a step goes through, and with how many rows


class Watch:
    """Of one optimizer, until stop() or the optimizer's end. `numbers`: those of its parameters, by
    id()."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers
        self.layers: dict[int, torch.nn.Linear] = {}
        self._users: dict[int, dict[int, torch.nn.Module]] = {}  # modules, by id()
        self._passes: dict[int, list[Seen]] = {}  # backward passes
        hook = partial(_has_run, weakref.ref(self))  # torch would keep the watch for ever
        self.stop = weakref.finalize(self, register_module_forward_hook(hook).remove)

    def seen(self, number: int) -> Seen:
        """What there was of a parameter."""
        passes = self._passes.get(number)
        if not passes:
            return NOTHING
        if len(self._users[number]) > 1:
            return passes[0]._replace(problem="several modules share it")
        if GRADIENTS.has_other_hooks(self.layers[number].weight):
            return passes[0]._replace(problem="it has a hook, which needs the gradient")
        if len(passes) > 1:
            return passes[0]._replace(problem=f"its layer runs {len(passes)} times in a step")
        return passes[0]

    def has_run(self, module: torch.nn.Module, output: Any) -> None:
        """A module has."""
        for name, parameter in module._parameters.items():
            number = self._numbers.get(id(parameter))
            if number is None:
                continue
            self._users.setdefault(number, {})[id(module)] = module
            if name == "weight" and type(module) in (torch.nn.Linear, FactoredLinear):
                self._notice(number, module, output)

    def _notice(self, number: int, layer: Any, output: torch.Tensor) -> None:
        if not (output.requires_grad and layer.weight.is_floating_point()):
            return
        self.layers[number] = layer
        rows = output.numel() // output.shape[-1]
        seen = Seen(rows, str(output.dtype).removeprefix("torch."), output.element_size())
        output.register_hook(partial(self._has_gone_back, number, seen))  # type: ignore[no-untyped-call]

    def _has_gone_back(self, number: int, seen: Seen, gradient: torch.Tensor) -> None:
        self._passes.setdefault(number, []).append(seen)


def _has_run(
    reference: weakref.ref[Watch], module: torch.nn.Module, inputs: Any, output: Any
) -> None:
    if traced.is_compiling() or not torch.is_grad_enabled():
        return
    watch = reference()
    if watch is not None:
        watch.has_run(module, output)
