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

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from hvdlite.core.arrays.objects import allgather_object, broadcast_object
from hvdlite.data import of_torch
from hvdlite.data.cursor import Cursor
from hvdlite.elastic.session import Session, warn_of_a_job_that_is_not_elastic
from hvdlite.elastic.turns import Moment, Turn, aligned
from hvdlite.exceptions import HorovodInternalError, HostsUpdatedInterrupt, PeerLostError
from hvdlite.job import basics, membership, torch_environment
from hvdlite.job.process_sets import add_process_set
from hvdlite.torch.elastic.state import TorchState
from hvdlite.torch.in_place.group import InPlace, for_good

Result = TypeVar("Result")


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


class Trainer(Protocol):
    """What a trainer has besides: counters, callbacks. They are those of the begin of a turn."""

    def objects(self) -> Any: ...
    def take_objects(self, found: Any) -> None: ...


class GoingOn:
    def __init__(
        self, model: torch.nn.Module, optimizer: Any, loader: DataLoader[Any],
        on_change: Callable[[int, int], None] | None, parts: dict[str, Any],
        trainer: Trainer | None = None,
    ) -> None:  # fmt: skip
        self.turn = Turn()
        self.in_region = False
        self.burnt = 0  # turns without an update
        given = {"model": model, "optimizer": optimizer} | parts
        self._wrapped = [m for m in given.values() if isinstance(m, DistributedDataParallel)]
        own = {name: _inner(part) for name, part in given.items()}
        optimizers = [each for each in own.values() if isinstance(each, torch.optim.Optimizer)]
        _check(own, self._wrapped)
        self.cursor = JobsCursor.of(loader, dist.get_world_size())
        self.batches = of_torch.by_cursor(loader, self.cursor)
        self.state = TorchState(**own, cursor=self.cursor)
        self._on_change = on_change
        self._trainer = trainer
        self._last: list[Any] | None = None
        self._came_to_its_step = False
        self._changes = False  # planned: made where the next turn begins
        self._newcomers = False  # wait for the next turn
        self._is_newcomer = False  # until it is let in
        self._root = 0  # the first rank that is no newcomer
        self._size = dist.get_world_size()
        self._session: Session | None = None
        self._group: Any = dist.group.WORLD
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
            if getattr(sys, "last_value", None) is None:  # by `break`, and not by an error
                self.end()
            raise
        self.end()

    def region(self, function: Callable[[], Result]) -> Result:
        """Calls a function with collectives between turns, such as a validation, and again if a
        rank is lost meanwhile. Its result has to be the same on all ranks."""
        while True:
            self.in_region = self.turn.waits = True
            try:
                result = function()
            except HorovodInternalError as error:
                if not error.retryable or self._session is None:
                    raise
                found = self.again(error)
                if found is None:
                    continue
                result = found[0]
            finally:
                self.in_region = self.turn.waits = False
            self.done([result])
            return result

    def end(self) -> None:
        """The training is over: what comes now is as in a job whose ranks stay. epochs() calls
        it."""
        session, self._session, self._group.loop = self._session, None, None
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if session is not None:
            session.member.done()
            session.end()

    # ---- turns

    def next_turn(self) -> None:
        """Where all ranks that there are stand at the begin of a turn."""
        while self._session is not None and self.turn.behind == 0:
            try:
                if self._changes:
                    self._changes = False
                    self._session.leave_if_asked()
                    self._next_generation()
                if not self._newcomers:
                    break
                self._let_in()
            except HorovodInternalError as error:
                self._recover(error)
        self.turn.begin()
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
            self._recover(lost)
        elif burnt:  # alone; the others have made this turn
            state._put_back_kept()
            self.cursor.reset()
        else:
            self._agree()

    def _agree(self) -> None:
        try:
            self.state.behind_boundary()
        except HostsUpdatedInterrupt:
            self._changes = True
        except HorovodInternalError as error:
            self._recover(error)

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

    # ---- for the group

    def again(self, error: HorovodInternalError) -> list[Any] | None:
        found: list[Any] | None = self._recover(error)
        return found

    def done(self, result: list[Any] | None) -> None:
        self.turn.done += 1
        self._last = result

    # ---- generations

    def _enter(self) -> None:
        if membership.member() is None:
            warn_of_a_job_that_is_not_elastic()
            return
        if not isinstance(self._group, InPlace):
            raise RuntimeError(
                "going_on: torch's default group is not hvdlite's. Call "
                "hvdlite.torch.distributed.init() in front of DistributedDataParallel(model)."
            )
        self._session = session = Session(self.state)
        self._is_newcomer = basics.warms_up()
        generation = session.member.generation
        self.state._marks.steps = True
        self.state._keep()
        changed = session.begin()
        self._settle(changed, bind=session.member.generation != generation)
        self._group.loop = self

    def _recover(self, error: Exception) -> Any:
        """Goes into the next generation, with those that are left and perhaps newcomers. Returns
        the result of the operation that this rank waits for, if another one has had it."""
        assert self._session is not None
        self._session.has_failed(error)
        return self._next_generation()

    def _next_generation(self) -> Any:
        assert self._session is not None
        self._changes = False
        self._session.next_generation()
        return self._settle(changed=True, bind=True)

    def _settle(self, changed: bool, bind: bool) -> Any:
        session = self._session
        assert session is not None
        while True:
            try:
                session.settle(changed)
                return self._align(bind)
            except HorovodInternalError as error:
                if not error.retryable:
                    raise
                session.has_failed(error)
                session.next_generation()
                changed = bind = True

    def _align(self, bind: bool) -> Any:
        """All ranks come to the same moment. Those that are new wait for the next turn."""
        told: list[Moment | None] = allgather_object(
            None if self._is_newcomer else self.turn.moment(), name="elastic.turns"
        )
        if told.count(None) == len(
            told
        ):  # those that have let these in are dead, and had sent their state before
            if self._trainer is not None:
                raise RuntimeError(
                    "all ranks were lost that had the trainer's counters, before this one had them"
                )
            told, self._is_newcomer = [Moment(0, 0, False) for _ in told], False
        stay = [rank for rank, each in enumerate(told) if each is not None]
        plan = aligned([each for each in told if each is not None])
        self._root, self._newcomers = stay[0], len(stay) < len(told)
        found = None
        if plan.source is not None:
            found = broadcast_object(self._last, stay[plan.source], name="elastic.result")
        if self._is_newcomer:
            self.turn.begun = max(each.turns for each in told if each is not None)
            self._let_in()
            return None
        place = stay.index(basics.rank())
        self.turn.behind = plan.behind[place]
        if bind:
            self._bind(stay)
        self._tell_of_change()
        if not plan.takes[place]:
            return None
        if found is None:
            raise for_good(
                PeerLostError(
                    "a rank was lost in an operation whose result another rank has had, and which "
                    "is too large to be sent again: call the function that does it by "
                    "region(function)"
                )
            )
        return found

    def _let_in(self) -> None:
        """All ranks, those that are new, too, stand at the begin of a turn."""
        self._bind(list(range(basics.size())))
        self.state.receive_objects(self._root)
        if self._trainer is not None:
            mine = self._trainer.objects() if basics.rank() == self._root else None
            found = broadcast_object(mine, self._root, name="elastic.trainer")
            if self._is_newcomer:
                self._trainer.take_objects(found)
        self._is_newcomer = False
        for each in self._wrapped:
            _make_reducer_anew(each)
        self._newcomers = False
        self._tell_of_change()

    def _bind(self, ranks: list[int]) -> None:
        """Those ranks call this together."""
        member = self._session.member if self._session else None
        assert member is not None
        name = f"torch in place, generation {member.generation}, {len(ranks)} ranks"
        members = add_process_set(ranks, name=name)
        self._group.bind(members, ranks)
        torch_environment.tell_numbers()
        _tell_accelerate()

    def _tell_of_change(self) -> None:
        before, self._size = self._size, dist.get_world_size()
        if self._on_change is not None and before != self._size:
            self._on_change(before, self._size)


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


class JobsCursor(Cursor):
    """Whose global batch is that of the ranks at the start. A newcomer gets to know it from the
    others."""

    @classmethod
    def of(cls, loader: DataLoader[Any], ranks: int) -> JobsCursor:
        order = of_torch.order_of(loader)
        tail = "drop" if loader.drop_last else "pad"
        batch: int = (loader.batch_size or 1) * ranks
        return cls(
            order.length, global_batch=batch, shuffle=order.shuffle, seed=order.seed, tail=tail
        )

    def state_dict(self) -> dict[str, int]:
        return super().state_dict() | {"global_batch": self._dealing.full(1)}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self._dealing = replace(self._dealing, global_batch=state["global_batch"])
        super().load_state_dict(state)


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
