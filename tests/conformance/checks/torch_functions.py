"""hvdlite.torch: parameters, optimizer state and objects, from one rank to all."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import COSTLY, check, needs
from checks.here import Here, raises

# LBFGS is refused; SparseAdam takes sparse gradients only (see torch_equivalence); Muon takes
# matrices only.
_LEFT_OUT = {"Optimizer", "LBFGS", "SparseAdam"}
_CLASSES = (
    "Adafactor", "Muon", "Adadelta", "Adagrad", "Adam", "Adamax", "AdamW", "ASGD", "NAdam", "RAdam",
    "RMSprop", "Rprop", "SGD",
)  # fmt: skip
# Other ways through the same classes, other state, and a learning rate that is a tensor.
_VARIANTS = (
    "SGD momentum nesterov", "SGD momentum fused", "SGD foreach", "Adam fused", "Adam foreach",
    "Adam amsgrad maximize", "AdamW amsgrad", "AdamW fused amsgrad", "Adagrad fused",
    "RMSprop momentum "
                                                             "centered", "Adam tensor_lr",
)  # fmt: skip
OPTIMIZERS = (*_CLASSES, *_VARIANTS)
_VALUES = {"momentum": 0.9}


def make_optimizer(
    description: str, parameters: Iterable[torch.Tensor], lr: float
) -> torch.optim.Optimizer:
    """By one of the names in OPTIMIZERS: a class, and flags."""
    name, *flags = description.split()
    needs(hasattr(torch.optim, name), f"a torch that has {name}")
    options: dict[str, Any] = {flag: _VALUES.get(flag, True) for flag in flags}
    rate = torch.tensor(lr) if options.pop("tensor_lr", False) else lr
    chosen = [p for p in parameters if name != "Muon" or p.dim() == 2]
    try:
        optimizer: torch.optim.Optimizer = getattr(torch.optim, name)(chosen, lr=rate, **options)
    except (TypeError, RuntimeError) as error:
        needs(
            "fused" not in flags or "fused" not in str(error),
            f"{name} with fused=True on the CPU (torch 2.3 to 2.5)",
        )
        raise
    return optimizer


def _model(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    )


def _equal_everywhere(here: Here, value: object) -> None:
    everyones = hvd.allgather_object(value)
    assert all(repr(each) == repr(everyones[0]) for each in everyones), everyones


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.ones(5, 3) + torch.rand(5, 3)).sum().backward()
    optimizer.step()


@check()
def parameters_come_from_a_state_dict_or_a_list(here: Here) -> None:
    root = here.size - 1
    for pick in (
        lambda m: m.state_dict(),
        lambda m: list(m.named_parameters()) + list(m.named_buffers()),
        lambda m: list(m.parameters()) + list(m.buffers()),
    ):
        model, theirs = _model(here.rank), _model(root)
        with torch.no_grad():
            for each in (model, theirs):
                each[1].num_batches_tracked += 7 if each is theirs or here.rank == root else 0
        hvd.broadcast_parameters(pick(model), root_rank=root)
        for mine, other in zip(
            model.state_dict().values(), theirs.state_dict().values(), strict=True
        ):
            assert torch.equal(mine, other)
    hvd.broadcast_parameters({"a": torch.ones(2), "extra": None, "note": "text"}, root_rank=0)
    for wrong in (_model(0).named_parameters(), _model(0).parameters(), 3, None):
        with raises(ValueError, "hvd.broadcast_parameters() cannot take a"):
            hvd.broadcast_parameters(wrong, root_rank=0)


@check()
def no_optimizer_of_torch_is_forgotten_here(here: Here) -> None:
    kinds = {
        n: k
        for n, k in vars(torch.optim).items()
        if inspect.isclass(k) and issubclass(k, torch.optim.Optimizer)
    }
    assert set(kinds) <= {*_CLASSES, *_LEFT_OUT}


@check(optimizer=OPTIMIZERS, tags=[COSTLY])
def optimizer_state_is_the_roots_before_and_after_a_step(here: Here, optimizer: str) -> None:
    root = here.size - 1
    for steps_of_root, steps_elsewhere in ((0, 0), (2, 0), (0, 1), (2, 1)):
        model = _model(0)
        lr = 0.25 if here.rank == root else 0.5
        mine = make_optimizer(optimizer, model.parameters(), lr)
        torch.manual_seed(here.rank)
        for _ in range(steps_of_root if here.rank == root else steps_elsewhere):
            _step(model, mine)
        hvd.broadcast_optimizer_state(mine, root_rank=root)
        state = mine.state_dict()
        _equal_everywhere(here, state)
        assert state["param_groups"][0]["lr"] == 0.25
        assert isinstance(
            state["param_groups"][0]["lr"], torch.Tensor if "tensor_lr" in optimizer else float
        )
        assert bool(state["state"]) == bool(mine.state)
        assert steps_of_root == 0 or optimizer in ("SGD", "SGD foreach") or mine.state
        hvd.broadcast_parameters(model.state_dict(), root_rank=root)
        torch.manual_seed(0)
        _step(model, mine)  # the state fits the parameters
        _equal_everywhere(here, model.state_dict())


@check(dtype=("float64", "bfloat16"))
def the_state_has_the_dtype_that_the_root_keeps_it_in(here: Here, dtype: str) -> None:
    kind = getattr(torch, dtype)
    for steps_elsewhere in (0, 1):  # without a state of their own, and with one of float32
        model = _model(0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(1 if here.rank == 0 else steps_elsewhere):
            _step(model, optimizer)
        if here.rank == 0:
            for state in optimizer.state.values():
                state["momentum_buffer"] = torch.full_like(
                    state["momentum_buffer"], 0.1, dtype=kind
                )
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        buffers = [state["momentum_buffer"] for state in optimizer.state.values()]
        assert len(buffers) == len(list(model.parameters()))
        assert all(torch.equal(b, torch.full_like(b, 0.1, dtype=kind)) for b in buffers), [
            b.dtype for b in buffers
        ]


@check()
def the_state_of_sparse_adam_is_the_roots(here: Here) -> None:
    for steps_of_root, steps_elsewhere in ((2, 0), (0, 1), (1, 2)):
        torch.manual_seed(0)
        words = torch.nn.Embedding(9, 3, sparse=True)
        optimizer = torch.optim.SparseAdam(words.parameters(), lr=0.1)
        for step in range(steps_of_root if here.rank == 0 else steps_elsewhere):
            optimizer.zero_grad()
            words(torch.tensor([step, here.rank])).sum().backward()
            optimizer.step()
        optimizer.zero_grad()
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        _equal_everywhere(here, optimizer.state_dict())
        assert bool(optimizer.state) == (steps_of_root > 0)
        optimizer.zero_grad()
        words(torch.tensor([1])).sum().backward()
        optimizer.step()


@check()
def options_keep_their_python_types(here: Here) -> None:
    model = _model(0)
    odd = here.rank != 0
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=0.1 + odd,
        betas=(0.8, 0.7 + odd / 10),
        amsgrad=odd,
        weight_decay=odd * 1,
        eps=1e-3,
    )
    optimizer.param_groups[0]["note"] = None if not odd else "x"
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    group = optimizer.param_groups[0]
    assert group["lr"] == 0.1 and group["betas"] == (0.8, 0.7) and group["amsgrad"] is False
    assert type(group["weight_decay"]) is int and group["note"] is None and group["eps"] == 1e-3
    assert all(not p.grad.any() for p in model.parameters()), (
        "gradients of zeros where there were none"
    )


@check()
def nested_state_and_keys_of_its_own_survive(here: Here) -> None:
    model = _model(0)
    first = next(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if here.rank == 0:
        optimizer.state[first] = {
            "deep": {"list": [torch.full((2,), 3.0), (1, "two")]},
            "count": torch.tensor(5),
        }
        optimizer.state["own"] = {"history": torch.arange(3)}
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    state = optimizer.state[first]
    assert state["deep"]["list"][0].tolist() == [3, 3] and state["deep"]["list"][1] == (1, "two")
    assert state["count"].item() == 5 and optimizer.state["own"]["history"].tolist() == [0, 1, 2]


@check()
def what_cannot_be_made_equal_is_refused(here: Here) -> None:
    with raises(ValueError, "LBFGS"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS(_model(0).parameters()), root_rank=0)
    frozen = _model(0)
    frozen[0].weight.requires_grad_(False)
    hvd.broadcast_optimizer_state(
        torch.optim.SGD(frozen.parameters(), lr=0.1, momentum=0.9), root_rank=0
    )
    assert frozen[0].weight.grad is None
