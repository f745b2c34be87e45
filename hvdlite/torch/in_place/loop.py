"""A loop over DistributedDataParallel that goes on where it is when ranks die, leave and come.

    going = hvd.elastic.going_on(model, optimizer, loader, scheduler=scheduler)
    for epoch in going.epochs(90):
        for x, y in going.loader: ...

Nothing is unwound. The turn in which a rank dies is burnt: its reductions answer at once with what
this rank has (torch/in_place/group.py), its gradients are dropped in front of the optimizer's
step, and at its end everything is as at the last boundary. There the ranks that are left go into
the next generation, and the same samples are dealt again.
"""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from hvdlite.core.arrays.objects import allgather_object
from hvdlite.data import of_torch
from hvdlite.elastic.in_place import JobsCursor, LoopInPlace, Trainer
from hvdlite.elastic.loop import generation
from hvdlite.elastic.session import warn_of_a_job_that_is_not_elastic
from hvdlite.job import basics, membership, torch_environment
from hvdlite.job.process_sets import add_process_set
from hvdlite.torch.elastic.state import TorchState
from hvdlite.torch.in_place.group import InPlace, groups

Result = TypeVar("Result")

_log = logging.getLogger("hvdlite")


def going_on(
    model: torch.nn.Module, optimizer: Any, loader: DataLoader[Any], *,
    on_change: Callable[[int, int], None] | None = None, **parts: Any,
) -> GoingOn:  # fmt: skip
    """Call it behind DistributedDataParallel(model), or Accelerate's prepare(), in front of the
    loop.

    The result's `loader` deals the data set of `loader`, which is not shared out yet, to the ranks
    there are: a step takes as many samples as it does at the start, whatever becomes of the ranks.
    `parts`: all else that belongs to the training, such as schedulers, a GradScaler, and further
    models and optimizers. `on_change(before, now)` hears the numbers of ranks.
    """
    return GoingOn(model, optimizer, loader, on_change, parts)


class GoingOn(LoopInPlace):
    def __init__(
        self, model: torch.nn.Module, optimizer: Any, loader: DataLoader[Any],
        on_change: Callable[[int, int], None] | None, parts: dict[str, Any],
        trainer: Trainer | None = None,
    ) -> None:  # fmt: skip
        self.burnt = 0  # turns without an update
        given = {"model": model, "optimizer": optimizer} | parts
        self._wrapped = [m for m in given.values() if isinstance(m, DistributedDataParallel)]
        own = {name: _inner(part) for name, part in given.items()}
        optimizers = [each for each in own.values() if isinstance(each, torch.optim.Optimizer)]
        _check(own, self._wrapped)
        self.cursor = cursor_of(loader, dist.get_world_size())
        self.batches = of_torch.by_cursor(loader, self.cursor)
        state = TorchState(**own, cursor=self.cursor)
        super().__init__(state, dist.get_world_size(), on_change, trainer)
        self._came_to_its_step = False
        self._hooks = [each.register_forward_hook(self._weigh) for each in self._wrapped]
        for each in optimizers:
            self._hooks.append(each.register_step_pre_hook(self._gate))
            self._hooks.append(each.register_step_post_hook(self._stepped))
        self._enter()

    # ---- for the program

    @property
    def loader(self) -> Iterable[Any]:
        """The batches of the rest of the epoch."""
        return _Batches(self)

    def epochs(self, number: int) -> Iterator[int]:
        """The epochs that are left of so many. Behind the last one ranks may end."""
        try:
            while self.cursor.epoch < number:
                epoch = self.cursor.epoch
                yield epoch
                self.end_turn()
                if self.cursor.epoch == epoch:  # the program has left the loop over the batches
                    self.cursor.skip_rest()
        except GeneratorExit:
            if not _has_failed():  # by `break`, and not by an error
                self.end()
            raise
        self.end()

    def end(self) -> None:
        """The training is over: what comes now is as in a job whose ranks stay. epochs() calls
        it."""
        for group in groups():
            group.loop = None
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        atexit.unregister(self._end_of_program)
        super().end()

    def _end_of_program(self) -> None:
        """A program that counts its epochs itself has come to its end behind one of them."""
        if _has_failed() or self._trainer is not None or self.turn.is_open or self.cursor.sample:
            return
        if basics.rank() == 0:
            _log.warning(
                "going_on: the program ends, and has not said that the training does. Write `for "
                "epoch in going.epochs(N)`: with range(N) a process that comes later begins at "
                "epoch 0. Or call going.end() behind the loop."
            )
        self.end()

    # ---- turns

    def next_turn(self) -> None:
        super().next_turn()
        self._came_to_its_step = False

    def end_turn(self, is_last: bool = True) -> None:
        """At the end of a turn, or of a loop. A turn of several batches ends with the optimizer's
        step, and the last one of an epoch without."""
        turn, state = self.turn, self.state
        if not turn.is_open or not (is_last or self._came_to_its_step):
            return
        burnt = turn.is_burnt and not turn.updated
        lost = turn.end()
        if burnt:
            self.burnt += 1
        else:
            state._at_boundary()
        if self._session is None:
            return
        if lost is not None:
            self.again(lost)
        elif burnt:  # alone; the others have made this turn
            state._put_back_kept()
            self.cursor.reset()
        else:
            self._agree()

    def _gate(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """In front of an optimizer's step, or within it, if it computes the loss."""
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            self._drop_what_is_burnt(optimizer)
            return None

        def computed() -> Any:
            loss = closure()
            self._drop_what_is_burnt(optimizer)
            return loss

        return args[:1], {**kwargs, "closure": computed}

    def _drop_what_is_burnt(self, optimizer: Any) -> None:
        if not self.turn.is_burnt:
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        if not self.turn.updated:  # this step changes nothing
            self.state._marks.whole = True

    def _stepped(self, *_: Any) -> None:
        self._came_to_its_step = True
        self.turn.updated |= not self.turn.is_burnt

    def _weigh(self, module: Any, inputs: Any, output: Any) -> Any:
        """The mean of the ranks' gradients is that of the samples, if their parts differ."""
        weight = self.cursor.weight
        if weight == 1.0 or not torch.is_grad_enabled():
            return None
        return torch.utils._pytree.tree_map(lambda each: _weighed(each, weight), output)

    # ---- generations

    def _enter(self) -> None:
        if membership.member() is None:
            warn_of_a_job_that_is_not_elastic()
            return
        if not isinstance(dist.group.WORLD, InPlace):
            raise RuntimeError(
                "going_on: torch's default group is not hvdlite's. Call "
                "hvdlite.torch.distributed.init() in front of DistributedDataParallel(model)."
            )
        if not all(isinstance(each.process_group, InPlace) for each in self._wrapped):
            raise RuntimeError(
                "going_on: a DistributedDataParallel has a process group of some of the ranks, "
                "which ends with the first one that dies: leave process_group out, or make it of "
                "all ranks."
            )
        self._begin()
        atexit.register(self._end_of_program)
        for each in groups():
            each.loop = self

    def _bind(self, ranks: list[int]) -> None:
        """Those ranks call this together."""
        found = groups()
        if len(ranks) == basics.size():
            _check_number(allgather_object(len(found), name="elastic.groups"))
        for number, group in enumerate(found):
            name = f"torch in place, generation {generation()}, {len(ranks)} ranks, {number}"
            group.bind(add_process_set(ranks, name=name), ranks)
        torch_environment.tell_numbers()
        _tell_accelerate()

    def _came_in(self) -> None:
        for each in self._wrapped:
            _make_reducer_anew(each)


def _has_failed() -> bool:
    """Whether the interpreter ends by an exception."""
    return getattr(sys, "last_value", None) is not None


# ---- the batches of a loop


class _Batches:
    """Each loop over it deals the rest of the epoch."""

    def __init__(self, going: GoingOn) -> None:
        self._going = going

    def __len__(self) -> int:
        return len(self._going.cursor)

    def __iter__(self) -> Iterator[Any]:
        going, cursor = self._going, self._going.cursor
        going.end_turn()
        cursor.start()
        epoch, deal = cursor.epoch, -1
        batches: Iterator[Any] = iter(())
        while True:
            going.end_turn(is_last=cursor.epoch_ahead() != epoch)
            if cursor.epoch_ahead() != epoch:
                return
            if not going.turn.is_open:
                going.next_turn()
            if deal != cursor.deal:  # what has been fetched was dealt to other ranks
                deal, batches = cursor.deal, iter(going.batches)
            batch = next(batches)
            cursor.begin(further=True)
            yield batch


def cursor_of(loader: DataLoader[Any], ranks: int) -> JobsCursor:
    order = of_torch.order_of(loader)
    batch: int = (loader.batch_size or 1) * ranks
    return JobsCursor(
        order.length, global_batch=batch, shuffle=order.shuffle, seed=order.seed,
        tail="drop" if loader.drop_last else "pad",
    )  # fmt: skip


# ---- torch's objects


class _Weighed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, weight: float) -> torch.Tensor:
        ctx.weight = weight
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        return gradient * ctx.weight, None


def _weighed(value: Any, weight: float) -> Any:
    """The same value, whose gradient is multiplied."""
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return value
    return _Weighed.apply(value, weight)  # type: ignore[no-untyped-call]


def _inner(part: Any) -> Any:
    """What DistributedDataParallel and Accelerate's optimizer wrap."""
    if isinstance(part, DistributedDataParallel):
        return part.module
    if type(part).__name__ == "AcceleratedOptimizer":
        return part.optimizer
    return part


def _check(parts: Mapping[str, Any], wrapped: Sequence[Any]) -> None:
    """Raises ValueError for what cannot go on in place."""
    kinds = {name: [kind.__name__ for kind in type(part).__mro__] for name, part in parts.items()}
    for name, known in kinds.items():
        reason = next((why for kind, why in _REFUSED.items() if kind in known), None)
        if reason is not None:
            raise ValueError(f"going_on: {name} is a {known[0]}, {reason}")
    if not any(isinstance(part, torch.optim.Optimizer) for part in parts.values()):
        raise ValueError("going_on: there is no torch.optim.Optimizer among what is given")
    if not wrapped:
        raise ValueError(
            "going_on: there is no DistributedDataParallel among what is given, so nothing adds "
            "the ranks' gradients: pass model = DistributedDataParallel(model)"
        )


def _check_number(of_groups: Sequence[int]) -> None:
    if len(set(of_groups)) > 1:
        raise RuntimeError(
            f"going_on: the ranks have made different numbers of process groups: {of_groups}, by "
            "rank. A process that comes later makes them, too, in front of going_on()."
        )


_SHARDED = "whose state is not on every rank, so a rank takes its part along when it dies"
_REFUSED = {
    "LBFGS": "whose step computes the loss several times: it has no place where a step is dropped",
    "FullyShardedDataParallel": _SHARDED,
    "FSDPModule": _SHARDED,
    "ZeroRedundancyOptimizer": _SHARDED,
    "Distributed": "which adds gradients by itself: use it with @hvd.elastic.run",
}


def _make_reducer_anew(ddp: Any) -> None:
    """A newcomer's has not put its buckets in order yet, and those of the others have."""
    parameters, expect_sparse = ddp._build_params_for_reducer()
    names = ddp._build_debug_param_to_name_mapping(parameters)
    ddp.reducer = None
    ddp._ddp_init_helper(parameters, expect_sparse, names, ddp.static_graph)
    # Whether the next forward pass sends the buffers depends on whether the last one had gradients.
    ddp.require_forward_param_sync = True


def _tell_accelerate() -> None:
    """Its two states have a copy of these numbers each."""
    module = sys.modules.get("accelerate.state")
    for kind in () if module is None else (module.PartialState, module.AcceleratorState):
        if "num_processes" in kind._shared_state:
            kind._shared_state.update(
                num_processes=basics.size(), process_index=basics.rank(),
                local_process_index=basics.local_rank(),
            )  # fmt: skip
