"""What a GradScaler of PyTorch finds when it looks at an optimizer's gradients.

It looks between backward() and step(), and leaves the step out if a gradient is not finite. Ranks
whose scalers find different things would make different numbers of steps.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Max
from hvdlite.core.process_sets import ProcessSet
from hvdlite.torch import traced
from hvdlite.torch.compression import batched
from hvdlite.torch.ops import OPS

Groups = list[dict[str, Any]]

# Where torch's scalers read gradients.
_UNSCALING = frozenset({"_unscale_grads_", "unscale_"})


class ReadByScalers:
    """An optimizer that notices when a scaler reads its gradients.

    torch's GradScaler reads them by `param_groups`. No other rank is held up: a rank that looks up
    the learning rate would wait for ranks that do not.
    """

    @property
    def param_groups(self) -> Groups:
        if not traced.is_compiling():
            caller = sys._getframe(1)
            if caller.f_code.co_name in _UNSCALING or self._hvd_is_under_way():
                scaler = caller.f_locals.get("self")
                if _is_scaler(scaler):
                    return self._groups_for(scaler)
        groups: Groups = self.__dict__["param_groups"]
        return groups

    @param_groups.setter
    def param_groups(self, groups: Groups) -> None:
        self.__dict__["param_groups"] = groups

    def _hvd_is_under_way(self) -> bool:
        """Whether gradients are being reduced, so that a scaler that reads them elsewhere waits."""
        return False

    def _groups_for(self, scaler: Any) -> Groups:
        """The groups that a scaler finds."""
        raise NotImplementedError


def turn_of(scaler: Any) -> Any:
    """Another object in each step of a scaler: torch makes a new one in each update()."""
    return getattr(scaler, "_per_optimizer_states", None)


def gradients_of(groups: Groups) -> list[torch.Tensor]:
    """Those that there are; of sparse ones the values."""
    found = [p.grad for group in groups for p in group["params"] if p.grad is not None]
    return [g if g.layout == torch.strided else g.coalesce().values() for g in found]


def are_finite(gradients: list[torch.Tensor]) -> bool:
    return not gradients or batched.are_finite(gradients)


def with_stand_in(groups: Groups, value: float) -> Groups:
    """The groups, and a gradient that no optimizer has: a scaler that finds none raises an
    error."""
    stand_in = torch.zeros((), device=groups[0]["params"][0].device)
    stand_in.grad = torch.full_like(stand_in, value)
    return [*groups, {"params": [stand_in]}]


def agreed(groups: Groups, name: str, process_set: ProcessSet) -> Groups:
    """The groups of an optimizer whose gradients are this rank's own. A scaler finds an overflow in
    them if any rank has one, also where there are no gradients."""
    gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
    finite = are_finite(gradients_of(groups))
    mine = torch.tensor([not finite, bool(gradients)], dtype=torch.uint8)
    overflow, some = OPS.run_one(mine, ALLREDUCE, name, process_set, Max).tolist()
    if gradients and overflow and finite:
        gradients[0].fill_(float("inf"))
    if gradients or not some:
        return groups
    return with_stand_in(groups, float("inf") if overflow else 0.0)


def _is_scaler(caller: Any) -> bool:
    # By name, because torch has several (torch.amp, torch.cuda.amp, fsdp), and programs derive
    # their own.
    return any(kind.__name__ == "GradScaler" for kind in type(caller).__mro__)
