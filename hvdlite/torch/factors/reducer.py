"""Reduces gradients, some of them by their factors: ranks gather the rows of all ranks, and each
computes the sum of all gradients by one product.

The rows lie in the order of the ranks. All ranks multiply the same numbers, so they get the same
bits if their libraries multiply alike: the same build of torch, processor and number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hvdlite.adapter.compression.rounds import factor_of
from hvdlite.adapter.hooks.primitives import Gradients
from hvdlite.adapter.hooks.reducer import GradientReducer, PendingGradient
from hvdlite.adapter.local import factors
from hvdlite.adapter.local.factors import Weight
from hvdlite.adapter.step import Options
from hvdlite.base.operations import ALLGATHER
from hvdlite.core import engine
from hvdlite.core.arrays.objects import allgather_object
from hvdlite.core.operations import Call
from hvdlite.job import basics
from hvdlite.torch.factors.linear import Watch, lead
from hvdlite.torch.gradients import GRADIENTS

Factors = tuple[torch.Tensor, torch.Tensor]

_TWICE = (
    "backward() has computed the factors of '{}' twice in one step(). sufficient_factors sends "
    "them once: leave it out to run the layer several times, or to add up several passes."
)
_ELSEWHERE = (
    "'{}' is used outside its layer, or its layer is compiled: its factors are not all of its "
    "gradient. Leave sufficient_factors out."
)
_HOOKED = (
    "'{}' has got a hook after the first step, and its factors travel, which no hook sees. "
    "Register it before the first backward(), or leave sufficient_factors out."
)
_NOT_CLEARED = (
    "'{}' had a gradient before backward(), which factors cannot be added to. Call "
    "optimizer.zero_grad() before backward(), or leave sufficient_factors out."
)
_ALIGNMENT = 64  # bytes; a product may round otherwise elsewhere


class FactoringReducer(GradientReducer):
    """The first step is as always. It shows which layers there are, and then the ranks choose."""

    def __init__(self, settings: Options, gradients: Gradients) -> None:
        super().__init__(settings, gradients)
        self.gathered = 0  # products so far
        self._numbers: dict[int, int] = {}  # by id() of the parameter
        self._kinds: dict[int, torch.dtype] = {}  # of the factors that travel, by number
        self._held: dict[int, Factors] = {}
        self._sent: set[int] = set()  # in this step
        self._misused: RuntimeError | None = None
        self._era = basics.incarnation()
        self._watch: Watch | None = Watch(self._numbers)

    @property
    def factored(self) -> list[str]:
        """The parameters whose factors travel."""
        return [self.entries[number].label for number in self._kinds]

    # ---- what layers ask

    def takes_factors(self, number: int) -> bool:
        """Whether the factors of this weight travel, now."""
        self._renew()
        return number in self._kinds

    def take_factors(self, number: int, inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        """A backward pass has computed them: `outputs` is the gradient of the layer's output."""
        if number in self._sent:
            raise RuntimeError(_TWICE.format(self.entries[number].label))
        self._sent.add(number)
        self._held[number] = inputs, outputs
        super().arrived(number)

    # ---- what is different from other gradients

    def arrived(self, number: int) -> None:
        """A gradient by autograd."""
        if number not in self._kinds:
            super().arrived(number)
            return
        # Newer versions of torch call a hook without a gradient, too.
        parameter = self.entries[number].parameter
        if not _is_clear(self._gradients.of(parameter)):
            why = _HOOKED if GRADIENTS.has_other_hooks(parameter) else _ELSEWHERE
            self._misused = RuntimeError(why.format(self.entries[number].label))

    def synchronize(self) -> None:
        """As always. The first step ends with the choice."""
        self._renew()
        try:
            super().synchronize()
            misused = self._misused
        finally:
            self._forget()
        if misused is not None:
            raise misused
        if self._watch is not None:
            watch, self._watch = self._watch, None
            watch.stop()
            self._choose(watch)

    def set_passes(self, passes: int) -> None:
        """Not more than one."""
        factors.check("", None, False, passes)
        super().set_passes(passes)

    def stop(self) -> None:
        super().stop()
        self._end_watch()

    def abandon(self) -> None:
        self._forget()
        self._renew()
        super().abandon()

    def _add(self, parameter: Any, place: int) -> None:
        self._numbers[id(parameter)] = len(self.entries)
        super()._add(parameter, place)

    def _permit(self, number: int, directly: bool) -> None:
        super()._permit(number, directly and number not in self._kinds)

    def _start(self, entry: PendingGradient, gradient: torch.Tensor | None) -> Callable[[], None]:
        number = self._numbers[id(entry.parameter)]
        if number not in self._kinds:
            return super()._start(entry, gradient)
        held = self._held.pop(number, None)
        is_clear = _is_clear(gradient)
        if held is None:
            if not is_clear:  # a second synchronize() of the same step
                return super()._start(entry, gradient)
            held = self._no_rows(number)
        elif not is_clear:
            raise RuntimeError(_NOT_CLEARED.format(entry.label))
        return self._gather(entry, held)

    def _no_rows(self, number: int) -> Factors:
        """Of a rank whose batch has not come through the layer."""
        weight, kind = self.entries[number].parameter, self._kinds[number]
        inputs = weight.new_empty((0, weight.shape[1]), dtype=kind)
        return inputs, weight.new_empty((0, weight.shape[0]), dtype=kind)

    def _gather(self, entry: PendingGradient, held: Factors) -> Callable[[], None]:
        settings, kept, parameter = self.settings, self._gradients, entry.parameter
        call = Call(ALLGATHER, entry.name, settings.process_set, grouped=True, patient=True)
        pending = kept.ops.start(call, held)
        scale = factor_of(
            settings.op, settings.prescale * settings.postscale, settings.process_set.size() or 1
        )

        def finish() -> None:
            inputs, outputs = engine.run_now(pending)
            kept.put(parameter, _product(inputs, outputs, parameter.dtype, scale))
            self.gathered += 1

        return finish

    # ---- the choice

    def _choose(self, watch: Watch) -> None:
        """All ranks come to the same."""
        mine = [watch.seen(number) for number in range(len(self.entries))]
        everyones = allgather_object(
            mine, f"{self.settings.scope}factors seen", self.settings.process_set
        )
        weights = [_described(entry) for entry in self.entries]
        found = factors.chosen(self.settings.sufficient_factors, weights, everyones)
        for number, dtype in found.items():
            self._kinds[number] = getattr(torch, dtype)
            self._permit(number, False)
            lead(watch.layers[number], self, number)

    def _renew(self) -> None:
        """An elastic job has other ranks now, and newcomers have chosen nothing."""
        if self._era == basics.incarnation():
            return
        self._era = basics.incarnation()
        chosen, self._kinds = self._kinds, {}
        for number in chosen:
            self._permit(number, True)  # there is no compression beside factors
        self._end_watch()
        self._watch = Watch(self._numbers)

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _forget(self) -> None:
        self._held.clear()
        self._sent.clear()
        self._misused = None


def _is_clear(gradient: torch.Tensor | None) -> bool:
    return gradient is None or not gradient.any()


def _described(entry: PendingGradient) -> Weight:
    parameter = entry.parameter
    outputs, inputs = parameter.shape if parameter.dim() == 2 else (0, 0)
    return Weight(entry.label, inputs, outputs, parameter.element_size())


def _product(
    inputs: torch.Tensor, outputs: torch.Tensor, kind: torch.dtype, scale: float
) -> torch.Tensor:
    """The gradient of a weight, times `scale`."""
    with torch.autocast(inputs.device.type, enabled=False):
        result = _aligned(outputs.to(kind)).t().mm(_aligned(inputs.to(kind)))
    return result if scale == 1.0 else result.mul_(scale)


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    """On all ranks alike."""
    return tensor.clone() if tensor.data_ptr() % _ALIGNMENT else tensor
