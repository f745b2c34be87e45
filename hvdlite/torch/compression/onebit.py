"""1-bit Adam: once the second moment has converged, ranks exchange the signs of their momentum."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from hvdlite.adapter import names
from hvdlite.adapter.agreement import presence
from hvdlite.adapter.agreement.drift_guard import DriftGuard, Replica
from hvdlite.adapter.agreement.presence_exchange import PresenceExchange
from hvdlite.adapter.compression.codecs import Quantised, sign
from hvdlite.adapter.compression.rounds import RoundRunner, wait_all
from hvdlite.adapter.step import Options
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Average
from hvdlite.core.engine import run_all
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.job import basics
from hvdlite.torch import scaling
from hvdlite.torch.compression.algebra import algebra
from hvdlite.torch.ops import OPS
from hvdlite.torch.replicas import READER

__all__ = ["OneBitAdam"]

Moved = list[tuple[str, dict[str, Any], torch.Tensor]]  # a name, a group and a parameter


class OneBitAdam(scaling.ReadByScalers, torch.optim.Optimizer):
    """Tang et al. 2021. For `freeze_step` steps it is Adam over the gradients of all ranks. Then
    the second moment stays as it is, and ranks average their first moments by 1 bit per number,
    with error feedback.

    It communicates by itself in step(): it is not for hvd.DistributedOptimizer. `freeze_step` is
    usually 15 to 20 % of all steps. Tensors of one dimension stay dense. A gradient that a rank
    lacks counts as zeros, and what a GradScaler finds on one rank it finds on all.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        freeze_step: int = 1000,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        if freeze_step < 1:
            raise ValueError(f"freeze_step={freeze_step} is not possible: Adam has to begin")
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )
        self.freeze_step = freeze_step
        self._process_set = process_set
        self._scope = f"{names.scope()}onebit."
        self._signs: Quantised = sign(algebra)
        self._begin_presence()

    def _begin_presence(self) -> None:
        """Also where an elastic job has other ranks: newcomers know nothing of layers that were
        trained and are frozen now."""
        self._era = basics.incarnation()
        self._places: dict[torch.Tensor, int] = {}  # of parameters
        self._trained: set[int] = set()
        self._replicas: list[Replica] = []
        guard = DriftGuard(self._scope, self._process_set, self._replicas, READER)
        options = Options(Average, 1.0, 1.0, process_set=self._process_set, scope=self._scope)
        self._presence = PresenceExchange(options, guard)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One step of all ranks."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        moved = self._moved()
        for _, _, parameter in moved:
            self._begin(parameter)
        frozen = [each for each in moved if self.state[each[2]]["step"] >= self.freeze_step]
        adam = [each for each in moved if self.state[each[2]]["step"] < self.freeze_step]
        self._average_gradients(adam)
        for _, group, parameter in moved:
            self._move_momentum(group, parameter)
        for _, group, parameter in adam:
            beta = group["betas"][1]
            gradient = self._decayed(group, parameter)
            self.state[parameter]["exp_avg_sq"].mul_(beta).addcmul_(
                gradient, gradient, value=1 - beta
            )
        self._average_momentum(frozen)
        for _, group, parameter in moved:
            self._move(group, parameter)
        return loss

    def _groups_for(self, scaler: Any) -> scaling.Groups:
        """Gradients are this rank's own."""
        groups: scaling.Groups = self.__dict__["param_groups"]
        return scaling.agreed(groups, f"{self._scope}overflow", self._process_set)

    def _moved(self) -> Moved:
        """The parameters of which some rank has a gradient. A rank that lacks it has zeros."""
        if self._era != basics.incarnation():
            self._begin_presence()
        members = [
            (f"{g}.{i}", group, parameter)
            for g, group in enumerate(self.param_groups)
            for i, parameter in enumerate(group["params"])
        ]
        for name, group, parameter in members:
            self._expect(group.get("param_names", {}), name, parameter)
        lacking = {self._places[p] for _, _, p in members if p.grad is None}
        heard = self._presence.exchange(lacking & self._trained)
        if heard is not None:
            for _, _, parameter in members:
                first, _ = presence.said_of(self._places[parameter], heard)
                if parameter.grad is None and first == presence.DENSE:
                    parameter.grad = torch.zeros_like(parameter)
        return [each for each in members if each[2].grad is not None]

    def _expect(self, labels: Any, name: str, parameter: torch.Tensor) -> None:
        """The exchange has the parameter, from its first gradient on as one that is trained."""
        if parameter not in self._places:
            label = labels[int(name.partition(".")[2])] if labels else name
            self._places[parameter] = self._presence.expect(label)
        place = self._places[parameter]
        if place not in self._trained and (parameter.requires_grad or parameter.grad is not None):
            self._trained.add(place)
            self._presence.train(place)
            self._replicas.append(Replica(self._presence.labels[place], parameter))

    def _begin(self, parameter: torch.Tensor) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)

    def _decayed(self, group: dict[str, Any], parameter: torch.Tensor) -> torch.Tensor:
        gradient = parameter.grad
        assert gradient is not None
        decay = group["weight_decay"]
        return gradient.add(parameter, alpha=decay) if decay else gradient

    def _call(self, name: str) -> Call:
        return Call(ALLREDUCE, self._scope + name, self._process_set, Average, in_place=True)

    def _average_gradients(self, moved: Moved) -> None:
        run_all([OPS.start(self._call(name), [p.grad]) for name, _, p in moved])

    def _move_momentum(self, group: dict[str, Any], parameter: torch.Tensor) -> None:
        beta = group["betas"][0]
        self.state[parameter]["exp_avg"].mul_(beta).add_(
            self._decayed(group, parameter), alpha=1 - beta
        )

    def _average_momentum(self, moved: Moved) -> None:
        runners = []
        for name, _, parameter in moved:
            momentum = self.state[parameter]["exp_avg"]
            # Where no gradient has ever been, a sign would make one.
            momentum.mul_(self.state[parameter]["exp_avg_sq"] > 0)
            runners.append(RoundRunner(self._signs, OPS, self._call(name), momentum, name))
        wait_all(runners)
        for (_, _, parameter), runner in zip(moved, runners, strict=True):
            momentum = self.state[parameter]["exp_avg"]
            momentum.copy_(runner.result()).mul_(self.state[parameter]["exp_avg_sq"] > 0)

    def _move(self, group: dict[str, Any], parameter: torch.Tensor) -> None:
        state = self.state[parameter]
        state["step"] += 1
        first, second = group["betas"]
        seen = min(state["step"], self.freeze_step)
        size = (state["exp_avg_sq"] / (1 - second**seen)).sqrt_().add_(group["eps"])
        parameter.addcdiv_(
            state["exp_avg"], size, value=-group["lr"] / (1 - first ** state["step"])
        )

    def state_dict(self) -> dict[str, Any]:
        """With the memory of the signs, which is this rank's own."""
        return {**super().state_dict(), "compression": self._signs.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The reverse."""
        state_dict = dict(state_dict)
        memory = state_dict.pop("compression", None)
        if memory is not None:
            self._signs.load_state_dict(memory)
        super().load_state_dict(state_dict)
