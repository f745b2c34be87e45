"""Every optimizer of hvdlite's where ranks are not alike: a scaler that overflows on one rank, a
gradient that one rank lacks, a layer that is frozen and thawed, ranks of different speed, and all
that a program may put around an optimizer. The weights are those of a simulation of all ranks in
one process, or the combination is refused with a sentence."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

import hvdlite.torch as hvd
from checks import check, needs
from checks.here import Here, adasum_tree, raises
from checks.torch_drift import guarded
from checks.torch_training import batches, equal_everywhere, mean_square, model, same, sgd
from hvdlite.torch.strategies import averaging

EVERY, STEPS = 4, 11
LAST = -1
Plain = Callable[[Any], torch.optim.Optimizer]


def _inner(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01, weight_decay=0.01)


def _lars(parameters: Any) -> torch.optim.Optimizer:
    return hvd.LARS(parameters, lr=0.5, weight_decay=1e-3)


def _lamb(parameters: Any) -> torch.optim.Optimizer:
    return hvd.LAMB(parameters, lr=0.01)


def _distributed(own: Any, net: Any) -> Any:
    return hvd.DistributedOptimizer(own, net.named_parameters())


def _adasum(own: Any, net: Any) -> Any:
    return hvd.DistributedOptimizer(own, net.named_parameters(), op=hvd.Adasum)


def _local(own: Any, net: Any, every: Any = EVERY) -> Any:
    return hvd.LocalSGD(own, every=every, named_parameters=net.named_parameters())


def _diloco(own: Any, net: Any, every: Any = EVERY) -> Any:
    """With this outer optimizer it is LocalSGD."""
    outer = hvd.OuterSGD(1.0, momentum=0.0)
    return hvd.DiLoCo(own, outer=outer, every=every, named_parameters=net.named_parameters())


def _diloco_in_fragments(own: Any, net: Any) -> Any:
    return hvd.DiLoCo(
        own, every=EVERY, fragments=2, overlap=1, momentum="reset",
        named_parameters=net.named_parameters(),
    )  # fmt: skip


def _onebit(freeze_step: int) -> Any:
    return lambda _, net: hvd.OneBitAdam(
        net.parameters(), lr=0.01, weight_decay=0.01, freeze_step=freeze_step
    )


class Kind(NamedTuple):
    """`plain`: what a rank would train with alone. `averages`: gradients, weights, or ways
    (Adasum); nothing if no simulation computes the same."""

    plain: Plain
    wrap: Callable[[Any, Any], Any]
    averages: str


KINDS = {
    "DistributedOptimizer": Kind(sgd, _distributed, "gradients"),
    "Adasum": Kind(_inner, _adasum, "ways"),
    "LocalSGD": Kind(_inner, _local, "weights"),
    "DiLoCo": Kind(_inner, _diloco, "weights"),
    "DiLoCo in fragments": Kind(_inner, _diloco_in_fragments, ""),
    "OneBitAdam": Kind(_adam, _onebit(100), "gradients"),
    "OneBitAdam with signs": Kind(_adam, _onebit(2), ""),
    "LARS": Kind(_lars, _distributed, "gradients"),
    "LAMB": Kind(_lamb, _distributed, "gradients"),
}


class Situation:
    """What is not alike. It is the same program on a rank and in the simulation."""

    scales = False

    def before(self, step: int, net: Any) -> None:
        """Each step."""

    def loss(self, step: int, rank: int, net: Any, x: Any, y: Any) -> Any:
        """None: the rank has no batch."""
        return mean_square(net, x, y)


class Overflow(Situation):
    """The last rank's loss is infinite in one step: where an average is due, and where none is."""

    scales = True

    def __init__(self, last: int, step: int) -> None:
        self.last, self.step = last, step

    def loss(self, step: int, rank: int, net: Any, x: Any, y: Any) -> Any:
        spike = float("inf") if step == self.step and rank == self.last else 1.0
        return mean_square(net, x, y) * spike


class Missing(Situation):
    """Rank 0 does not use the last layer in some steps, or it does first; once it has no batch."""

    def __init__(self, scales: bool, late: bool) -> None:
        self.scales, self.late = scales, late

    def loss(self, step: int, rank: int, net: Any, x: Any, y: Any) -> Any:
        if rank == 0 and step == 5:
            return None
        hidden = net[1](net[0](x))
        if rank == 0 and (step < 2 if self.late else step % 3 == 1):
            return hidden.square().mean()
        return torch.nn.functional.mse_loss(net[2](hidden), y)


class Frozen(Situation):
    """On all ranks between the same steps, and not at an average. Once with a scaler."""

    def __init__(self, scales: bool) -> None:
        self.scales = scales

    def before(self, step: int, net: Any) -> None:
        if step == 2:
            net[0].requires_grad_(False)
        if step == 9:
            net[0].requires_grad_(True)


class World:
    """All ranks in one process: a network and a plain optimizer for each."""

    def __init__(self, here: Here, kind: Kind, situation: Situation, seed: int = 1) -> None:
        self.here, self.kind, self.situation = here, kind, situation
        self.nets = [model(seed) for _ in here.ranks]
        self.own = [kind.plain(net.parameters()) for net in self.nets]

    def backward(self, step: int, rank: int, x: Any, y: Any) -> None:
        net = self.nets[rank]
        self.situation.before(step, net)
        net.zero_grad()
        rows = slice(4 * rank, 4 * rank + 4)
        loss = self.situation.loss(step, rank, net, x[rows], y[rows])
        if loss is not None:
            loss.backward()

    def is_finite(self, rank: int) -> bool:
        gradients = [p.grad for p in self.nets[rank].parameters() if p.grad is not None]
        return all(bool(gradient.isfinite().all()) for gradient in gradients)

    def step(self, step: int, x: Any, y: Any) -> None:
        for rank in self.here.ranks:
            self.backward(step, rank, x, y)
        fine = [self.is_finite(rank) for rank in self.here.ranks]
        if self.kind.averages == "weights":
            for own, good in zip(self.own, fine, strict=True):
                if good:
                    own.step()
            if (step + 1) % EVERY == 0:
                self.average()
        elif all(fine):
            {"gradients": self._by_gradients, "ways": self._by_ways}[self.kind.averages]()

    def _by_gradients(self) -> None:
        for alike in zip(*(net.parameters() for net in self.nets), strict=True):
            present = [p.grad for p in alike if p.grad is not None]
            if present:
                mean = torch.stack(present).sum(0) / len(alike)
                for parameter in alike:
                    parameter.grad = mean.clone()
        for own in self.own:
            own.step()

    def _by_ways(self) -> None:
        starts = [copy.deepcopy(list(net.parameters())) for net in self.nets]
        for own in self.own:
            own.step()
        with torch.no_grad():
            for number, alike in enumerate(zip(*(n.parameters() for n in self.nets), strict=True)):
                start = starts[0][number]
                ways = [(p - start).reshape(-1).numpy() for p in alike]
                total = torch.from_numpy(np.ascontiguousarray(adasum_tree(ways)))
                for parameter in alike:
                    parameter.copy_(start + total.reshape(start.shape))

    def average(self, shares: Sequence[float] = ()) -> None:
        weights = torch.tensor(shares or [1.0] * len(self.nets), dtype=torch.float64)
        with torch.no_grad():
            for alike in zip(*(net.parameters() for net in self.nets), strict=True):
                mean = sum(p * w for p, w in zip(alike, weights / weights.sum(), strict=True))
                for parameter in alike:
                    parameter.copy_(mean)


def _scaler() -> Any:
    needs(hasattr(torch.amp, "GradScaler"), "a GradScaler for the CPU (torch 2.3)")
    return torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=3)


def _step(optimizer: Any, scaler: Any, loss: Any) -> None:
    """The end of a step, as PyTorch's pages have it."""
    if scaler is None:
        if loss is not None:
            loss.backward()
        optimizer.step()
        return
    if loss is not None:
        scaler.scale(loss).backward()
    else:
        scaler.scale(torch.ones(1))
    scaler.step(optimizer)
    scaler.update()


def _trained_alike(here: Here, kind: str, situation: Situation) -> None:
    how, net = KINDS[kind], model()
    optimizer = how.wrap(how.plain(net.parameters()), net)
    world = World(here, how, situation)
    scaler = _scaler() if situation.scales else None
    rows = slice(4 * here.rank, 4 * here.rank + 4)
    for step, (x, y) in enumerate(batches(here, STEPS)):
        situation.before(step, net)
        optimizer.zero_grad()
        loss = situation.loss(step, here.rank, net, x[rows], y[rows])
        _step(optimizer, scaler, loss)
        if how.averages:
            world.step(step, x, y)
    if how.averages == "weights":
        world.average()
    getattr(optimizer, "sync", bool)()
    equal_everywhere(net)
    assert all(p.isfinite().all() for p in net.parameters())
    if how.averages:
        same(here, net, world.nets[here.rank])


@check(min_ranks=2, kind=tuple(KINDS))
def an_overflow_on_one_rank_leaves_all_in_step(here: Here, kind: str) -> None:
    for step in (1, EVERY - 1):
        _trained_alike(here, kind, Overflow(here.size - 1, step))


@check(min_ranks=2, kind=tuple(KINDS))
def a_gradient_that_one_rank_lacks_leaves_all_in_step(here: Here, kind: str) -> None:
    for scales in (False, True):
        for late in (False, True):
            _trained_alike(here, kind, Missing(scales, late))


@check(min_ranks=2, kind=tuple(KINDS))
def a_layer_that_is_frozen_and_thawed_is_the_same_on_all(here: Here, kind: str) -> None:
    for scales in (False, True):
        _trained_alike(here, kind, Frozen(scales))


# ---- ranks of different speed


@contextlib.contextmanager
def clock() -> Iterator[Any]:
    """The time of averages, which a program moves on."""
    now, real = SimpleNamespace(seconds=0.0), averaging.time
    averaging.time = SimpleNamespace(monotonic=lambda: now.seconds)  # type: ignore[assignment]
    try:
        yield now
    finally:
        averaging.time = real


class FrozenInTime(Situation):
    """Each rank by its own steps, so that ranks average while only some have frozen the layer."""

    def before(self, step: int, net: Any) -> None:
        net[0].requires_grad_(not 7 <= step < 15)


def _segments(rank: int, steps: int) -> list[int]:
    """How many steps a rank makes from one average to the next, and at last to sync(), if each
    takes 1 + 3 * rank seconds and averages are 10 seconds apart."""
    between = -(-10 // (1 + 3 * rank))
    return [between] * (steps // between) + [steps % between]


def _simulated_by_time(here: Here, kind: Kind, situation: Situation, steps: int) -> tuple[Any, int]:
    world, data = World(here, kind, situation), batches(here, steps)
    segments = [_segments(rank, steps) for rank in here.ranks]
    meetings = max(map(len, segments))
    at = [0] * here.size
    for meeting in range(meetings):
        shares = []
        for rank in here.ranks:
            there = meeting < len(segments[rank])
            for _ in range(segments[rank][meeting] if there else 0):
                world.backward(at[rank], rank, *data[at[rank]])
                world.own[rank].step()
                at[rank] += 1
            shares.append(float(segments[rank][meeting]) if there else 0.0)
        world.average(shares)
    return world.nets[here.rank], meetings


TIMED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "LocalSGD": _local,
    "DiLoCo": _diloco,
    "LARS": _local,
    "LAMB": _local,
}


@check(min_ranks=2, kind=tuple(TIMED))
def ranks_of_different_speed_meet_by_time_and_in_sync(here: Here, kind: str) -> None:
    """The ranks make equally many steps, and reach sync() after different numbers of averages."""
    how, steps = KINDS[kind], 23
    for situation in (Situation(), FrozenInTime()):
        net = model()
        with clock() as now:
            optimizer = TIMED[kind](how.plain(net.parameters()), net, "10s")
            rows = slice(4 * here.rank, 4 * here.rank + 4)
            for step, (x, y) in enumerate(batches(here, steps)):
                situation.before(step, net)
                optimizer.zero_grad()
                situation.loss(step, here.rank, net, x[rows], y[rows]).backward()
                now.seconds += 1 + 3 * here.rank
                optimizer.step()
            optimizer.sync()
        hvd.broadcast_object("evaluate", 0)  # as a program that goes on
        want, meetings = _simulated_by_time(here, how, situation, steps)
        assert optimizer._hvd_local_steps.averages == meetings
        same(here, net, want)


@check(min_ranks=2, kind=("DistributedOptimizer", "Adasum", "OneBitAdam"))
def what_communicates_in_each_step_does_not_average_by_time(here: Here, kind: str) -> None:
    net = model()
    optimizer = KINDS[kind].wrap(KINDS[kind].plain(net.parameters()), net)
    for wrap in (_local, _diloco):
        with raises(ValueError, "already" if kind != "OneBitAdam" else "communicates by itself"):
            wrap(optimizer, net, "10s")
    with raises(ValueError, "already" if kind != "OneBitAdam" else "communicates by itself"):
        hvd.DistributedOptimizer(optimizer)


@check(min_ranks=2)
def ranks_with_uneven_data_meet_in_sync(here: Here) -> None:
    """Without hvd.join(): a rank whose data are used up takes part until all are in sync(), and
    weighs nothing there."""
    net = model()
    optimizer = _local(torch.optim.SGD(net.parameters(), lr=0.0), net, every=2)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(float(here.rank))
    for step in range(1 if here.rank == 0 else 5):
        optimizer.zero_grad()
        x, y = batches(here, 5)[step]
        mean_square(net, x, y).backward()
        optimizer.step()
    optimizer.sync()  # of rank 0: after 1 step; the others average after 2 and 4, and here
    mean = (here.size - 1) / 2
    for parameter in net.parameters():
        torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, mean))
    assert optimizer._hvd_local_steps.averages == 3
    equal_everywhere(net)


# ---- scalers of other kinds


@check(min_ranks=2, kind=("LocalSGD", "DiLoCo"), seconds=15)
def a_scaler_that_leaves_out_steps_for_reasons_of_its_own_leaves_ranks_in_step(
    here: Here, kind: str
) -> None:
    needs(hasattr(torch.amp, "GradScaler"), "a GradScaler for the CPU (torch 2.3)")

    class Choosy(torch.amp.GradScaler):
        steps = 0

        def _maybe_opt_step(self, optimizer: Any, *rest: Any, **how: Any) -> Any:
            self.steps += 1
            if here.rank == 0 and self.steps in (2, 4):
                return None
            return super()._maybe_opt_step(optimizer, *rest, **how)

    how, net = KINDS[kind], model()
    for cleared_by in ("optimizer", "model"):
        optimizer = how.wrap(how.plain(net.parameters()), net)
        scaler = Choosy("cpu")
        for x, y in batches(here, 9):
            (optimizer if cleared_by == "optimizer" else net).zero_grad()
            scaler.scale(mean_square(net, x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
        steps = hvd.allgather_object(optimizer._hvd_local_steps._count.steps)
        assert steps == [9.0] * here.size, steps
        assert optimizer._hvd_local_steps.averages == 2
        optimizer.sync()
        equal_everywhere(net)


@check(min_ranks=2, fused=(False, True))
def clipping_between_unscaling_and_the_step_counts_a_step_once(here: Here, fused: bool) -> None:
    net, scaler = model(dtype=torch.float32), _scaler()
    optimizer = _local(torch.optim.SGD(net.parameters(), lr=0.1, fused=fused), net)
    for step, (x, y) in enumerate(batches(here, 6, torch.float32)):
        optimizer.zero_grad()
        spike = float("inf") if step in (1, 3) and here.rank == 0 else 1.0
        scaler.scale(mean_square(net, x, y) * spike).backward()
        if not fused:  # a fused optimizer unscales by itself
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        assert optimizer._hvd_local_steps._count.steps == step + 1
    assert optimizer._hvd_local_steps.averages == 1
    optimizer.sync()
    equal_everywhere(net)


# ---- what an optimizer remembers


@check(min_ranks=2, optimizer=("SGD", "Adam"))
def momentum_of_a_layer_that_one_rank_has_not_used_is_averaged(here: Here, optimizer: str) -> None:
    """As if that rank had zeros."""
    net = model()
    own = _inner(net.parameters()) if optimizer == "SGD" else _adam(net.parameters())
    local = hvd.LocalSGD(own, 2, momentum="average", named_parameters=net.named_parameters())
    situation, used = Missing(scales=False, late=True), net[2].weight
    key = "momentum_buffer" if optimizer == "SGD" else "exp_avg"
    for step, (x, y) in enumerate(batches(here, 4)):
        local.zero_grad()
        situation.loss(step, here.rank, net, x, y).backward()
        if step == 1:
            assert (used in local.state) == (here.rank > 0)
        local.step()
        if step == 1:
            mine = local.state[used][key]
            assert mine.any() and torch.equal(hvd.broadcast(mine, 0, "momentum"), mine)
    equal_everywhere(net)
    assert all(mine.any() for mine in (local.state[p][key] for p in net.parameters()))


@check(min_ranks=2)
def what_has_moved_is_in_checkpoints(here: Here) -> None:
    """A rank goes on from its own state in the middle of an interval, behind a freeze."""
    net = model()
    optimizer = _local(_inner(net.parameters()), net)
    for step, (x, y) in enumerate(batches(here, 3)):
        Frozen(False).before(step, net)
        optimizer.zero_grad()
        rows = slice(4 * here.rank, 4 * here.rank + 4)
        mean_square(net, x[rows], y[rows]).backward()
        optimizer.step()
    kept = io.BytesIO()
    torch.save({"net": net.state_dict(), "own": optimizer.state_dict()}, kept)
    kept.seek(0)
    found = torch.load(kept, weights_only=True)
    again = model(seed=9)
    again[0].requires_grad_(False)
    resumed = _local(_inner(again.parameters()), again)
    again.load_state_dict(found["net"])
    resumed.load_state_dict(found["own"])
    resumed.sync()
    equal_everywhere(again)
    optimizer.sync()
    for mine, theirs in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@check(min_ranks=2)
def a_rank_saves_alone_while_an_average_travels(here: Here) -> None:
    net = model()
    outer = hvd.OuterSGD(1.0, momentum=0.0)
    with guarded(steps=2):
        optimizer = hvd.DiLoCo(_inner(net.parameters()), outer, 4, fragments=2, overlap=1)
    for step, (x, y) in enumerate(batches(here, 8)):
        optimizer.zero_grad()
        mean_square(net, x, y * here.rank).backward()
        optimizer.step()
        if here.rank == 0 and step in (1, 3):
            optimizer.state_dict()
        hvd.barrier()
    assert optimizer._hvd_local_steps.averages == 3  # the fourth is under way
    optimizer.sync()
    equal_everywhere(net)


# ---- all at once


@check(min_ranks=2, kind=tuple(KINDS), seconds=20)
def all_that_a_program_puts_around_an_optimizer_goes_together(here: Here, kind: str) -> None:
    """Broadcasts of parameters and state, a warm-up, clipping, a scaler, the drift guard, and a
    checkpoint from which the training goes on."""
    how = KINDS[kind]

    def made(seed: int) -> tuple[Any, Any, Any]:
        net = model(seed)
        with guarded(steps=2):
            optimizer = how.wrap(how.plain(net.parameters()), net)
        return net, optimizer, hvd.LinearWarmUp(optimizer, steps=4)

    net, optimizer, warm_up = made(1 + here.rank)
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    world = World(here, how, Situation())
    schedules = [hvd.LinearWarmUp(own, steps=4) for own in world.own]
    scaler = _scaler()
    rows = slice(4 * here.rank, 4 * here.rank + 4)
    for step, (x, y) in enumerate(batches(here, 2 * EVERY)):
        if step == EVERY:
            kept = io.BytesIO()
            torch.save([net.state_dict(), optimizer.state_dict(), warm_up.state_dict()], kept)
            kept.seek(0)
            found = torch.load(kept, weights_only=True)
            net, optimizer, warm_up = made(7)
            for each, state in zip((net, optimizer, warm_up), found, strict=True):
                each.load_state_dict(state)
        optimizer.zero_grad()
        scaler.scale(mean_square(net, x[rows], y[rows])).backward()
        scaler.unscale_(optimizer)
        hvd.clip_grad_norm_(optimizer, max_norm=1e9)
        scaler.step(optimizer)
        scaler.update()
        warm_up.step()
        if how.averages:
            world.step(step, x, y)
            for schedule in schedules:
                schedule.step()
    getattr(optimizer, "sync", bool)()
    equal_everywhere(net)
    if how.averages:
        same(here, net, world.nets[here.rank])
