"""Compression with memory: hvd.Compression.topk, dgc and powersgd, in the optimizer, in DDP's hook
and in hvd.allreduce()."""

from __future__ import annotations

import copy
import io
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check
from checks.choosing import on_a_slow_network
from checks.here import Here, raises
from checks.torch_training import batches, equal_everywhere, mean_square, model, run_steps
from checks.torch_training import distributed as wrapped
from hvdlite.adapter.compression.dgc import DGC
from hvdlite.adapter.compression.topk import TopK
from hvdlite.torch.compression.algebra import TorchAlgebra

METHODS = {
    "topk": lambda: hvd.Compression.topk(0.1),
    "dgc": lambda: hvd.Compression.dgc(0.1, momentum=0.9),
    "powersgd": lambda: hvd.Compression.powersgd(1),
    "int8": lambda: hvd.Compression.int8(),
    "fp8": lambda: hvd.Compression.fp8(),
    "sign": lambda: hvd.Compression.sign(),
    "ternary": lambda: hvd.Compression.ternary(2.5, error_feedback=True, seed=3),
    "qsgd": lambda: hvd.Compression.qsgd(7),
    "threshold": lambda: hvd.Compression.threshold(0.1),
}
# How many times fewer bytes than float32 are on the wire.
SMALLER = {"int8": 3.8, "fp8": 3.8, "sign": 27.0, "ternary": 14.0, "qsgd": 7.0, "threshold": 14.0}


def distributed(compression: Any, net: Any = None, **options: Any) -> tuple[Any, Any]:
    def sgd(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.05)

    return wrapped(sgd, net, compression=compression, **options)


@check(method=tuple(METHODS))
def sent_and_kept_is_the_sum_of_all_gradients(here: Here, method: str) -> None:
    for op in (hvd.Average, hvd.Sum):
        _sent_and_kept_is_the_sum(here, method, op)


def _sent_and_kept_is_the_sum(here: Here, method: str, op: int) -> None:
    compression = METHODS[method]()
    if method == "dgc":
        compression = hvd.Compression.dgc(0.1, momentum=0.0)
    total = torch.zeros(20, 30)
    given = torch.zeros(20, 30)
    generator = torch.Generator().manual_seed(here.rank)
    for _ in range(5):
        gradient = torch.randn(20, 30, generator=generator)
        given += gradient
        total += hvd.allreduce(gradient, op=op, name="gradient", compression=compression)
    kept = compression.state_dict()["memory"]["gradient"]["residual"].reshape(20, 30)
    expected = hvd.allreduce(given - kept, op=op, name="expected")
    torch.testing.assert_close(total, expected, atol=1e-4, rtol=1e-4)
    everyones = hvd.allgather(total[None], name="everyones")
    assert all(torch.equal(each, total) for each in everyones)


@check(min_ranks=2, method=tuple(METHODS))
def training_leaves_all_ranks_with_the_same_weights(here: Here, method: str) -> None:
    for passes in (1, 2):
        compression = METHODS[method]()
        net, optimizer = distributed(compression, backward_passes_per_step=passes)
        run_steps(here, net, optimizer, 4)
        equal_everywhere(net)
        names = {name for name, p in net.named_parameters() if p.dim() > 1 or method == "dgc"}
        assert set(compression.state_dict()["memory"]) == names


# Not those that draw random numbers: they do so by names, and a second optimizer has other names.
@check(min_ranks=2, method=tuple(m for m in METHODS if m not in ("ternary", "qsgd")))
def training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(here: Here, method: str) -> None:
    net, optimizer = distributed(METHODS[method]())
    run_steps(here, net, optimizer, 2)
    file = io.BytesIO()
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
    run_steps(here, net, optimizer, 3)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again = model(seed=5)
    again.load_state_dict(saved["model"])
    again, resumed = distributed(METHODS[method](), again)
    resumed.load_state_dict(saved["optimizer"])
    run_steps(here, again, resumed, 3)
    for mine, other in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, other)


@check(min_ranks=2, method=tuple(SMALLER))
def a_codec_makes_it_so_many_times_smaller(here: Here, method: str) -> None:
    compression = METHODS[method]()
    before = hvd.metrics()
    hvd.allreduce(torch.randn(512, 1024), name="encoded", compression=compression)
    after = hvd.metrics()
    plain = after["bytes_before_encoding"] - before["bytes_before_encoding"]
    encoded = after["bytes_encoded"] - before["bytes_encoded"]
    assert plain > 0 and plain >= SMALLER[method] * encoded, (plain, encoded)


@check(min_ranks=2)
def no_feedback_means_no_memory(here: Here) -> None:
    compression = hvd.Compression.ternary(error_feedback=False)
    for step in range(2):
        total = hvd.allreduce(
            torch.randn(30, 40), op=hvd.Sum, name=f"forgotten.{step}", compression=compression
        )
        assert total.isfinite().all()
    memory = compression.state_dict()["memory"]
    assert all(list(state) == ["step"] for state in memory.values())


def sparse_operations() -> int:
    return hvd.metrics()["carried_by"].get("sparse", {}).get("allreduce", 0)


@check(min_ranks=2)
def two_factors_of_a_matrix_travel(here: Here) -> None:
    before = hvd.metrics()["bytes"]
    compression = hvd.Compression.powersgd(1)
    hvd.allreduce(torch.randn(300, 300), name="large", compression=compression)
    sent = hvd.metrics()["bytes"] - before
    assert 0 < sent <= 2400 * here.size, sent  # of 360,000


@check(min_ranks=2, method=("topk", "dgc"))
def the_core_sends_the_largest_elements_and_no_others(here: Here, method: str) -> None:
    net, optimizer = distributed(METHODS[method]())
    matrices = [p.numel() for p in net.parameters() if p.dim() > 1]
    for _ in range(2):
        before = hvd.metrics()
        operations = sparse_operations()
        run_steps(here, net, optimizer, 1)
        after = hvd.metrics()
        assert operations < sparse_operations() <= operations + len(matrices)
        sent = after["bytes_encoded"] - before["bytes_encoded"]
        others = here.size - 1
        assert sent == others * sum(8 * max(1, round(0.1 * count)) for count in matrices)
        dense = after["bytes_before_encoding"] - before["bytes_before_encoding"]
        assert dense == others * 4 * sum(matrices)


class Afar(TorchAlgebra):
    """Tensors that the core is not lent."""

    def is_lent(self, array: torch.Tensor) -> bool:
        return False


@check(method=("topk", "dgc", "nesterov"))
def the_core_and_the_algebra_have_the_same_bits(here: Here, method: str) -> None:
    make: Callable[[Any], Any] = {
        "topk": lambda algebra: TopK(algebra, 0.01),
        "dgc": lambda algebra: DGC(algebra, 0.01),
        "nesterov": lambda algebra: DGC(algebra, 0.1, nesterov=True, masking=False),
    }[method]
    by_core, by_algebra = make(TorchAlgebra), make(Afar)
    generator = torch.Generator().manual_seed(here.rank)
    for step in range(4):
        gradient = torch.randn(100, 700, generator=generator)
        if step == 2 and here.rank == 0:
            gradient[50, 50] = math.nan
        operations = sparse_operations()
        found = hvd.allreduce(gradient, name="near", compression=by_core)
        assert sparse_operations() == operations + 1
        expected = hvd.allreduce(gradient, name="afar", compression=by_algebra)
        assert sparse_operations() == operations + 1
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        kept = by_core.state_dict()["memory"]["near"]
        for key, value in by_algebra.state_dict()["memory"]["afar"].items():
            torch.testing.assert_close(kept[key], value, rtol=0, atol=0)


@check(min_ranks=2, method=("topk", "sign", "powersgd"))
def autograd_is_told_that_a_gradient_has_changed(here: Here, method: str) -> None:
    net, optimizer = distributed(METHODS[method](), model(dtype=torch.float32))
    x, y = batches(here, 1, torch.float32)[0]
    mean_square(net, x, y).backward()
    gradients = [p.grad for p in net.parameters() if p.dim() > 1]
    before = [(gradient.data_ptr(), gradient._version) for gradient in gradients]
    optimizer.synchronize()
    gradients = [p.grad for p in net.parameters() if p.dim() > 1]
    for gradient, (address, version) in zip(gradients, before, strict=True):
        assert gradient.data_ptr() == address
        assert gradient._version > version
    with optimizer.skip_synchronize():
        optimizer.step()


@check(min_ranks=2)
def nan_on_one_rank_reaches_all_and_leaves_the_memory_alone(here: Here) -> None:
    compression = hvd.Compression.topk(0.1)
    send = lambda t: hvd.allreduce(t, name="poisoned", compression=compression)  # noqa: E731
    send(torch.full((10, 10), 1.0 + here.rank))
    before = copy.deepcopy(compression.state_dict())
    poisoned = torch.ones(10, 10)
    poisoned[3, 4] = float("nan") if here.rank == 1 else 1.0
    assert send(poisoned).isnan().any()
    after = compression.state_dict()
    assert torch.equal(
        before["memory"]["poisoned"]["residual"], after["memory"]["poisoned"]["residual"]
    )
    assert send(torch.ones(10, 10)).isfinite().all()


@check()
def what_makes_no_sense_is_refused(here: Here) -> None:
    with raises(ValueError, "groups=2 is not possible with topk(density=0.01)"):
        distributed(hvd.Compression.topk(), groups=2)
    with raises(ValueError, "remembers each tensor by its name"):
        hvd.allreduce(torch.ones(3, 3), compression=hvd.Compression.topk())
    with raises(ValueError, "compresses an allreduce with hvd.Average or hvd.Sum only"):
        hvd.allreduce(torch.ones(3, 3), op=hvd.Max, name="m", compression=hvd.Compression.topk())


@check()
def dgc_with_weight_decay_says_by_what_to_multiply_it(here: Here) -> None:
    """Zero gradients: nothing but the decay moves the weights."""

    def decayed(momentum: float, decay: float, **options: Any) -> float:
        weight = torch.nn.Parameter(torch.ones(4, 4))
        sgd = torch.optim.SGD([weight], lr=0.01, momentum=momentum, weight_decay=decay)
        optimizer = hvd.DistributedOptimizer(sgd, **options)
        for _ in range(100):
            weight.grad = torch.zeros_like(weight)
            optimizer.step()
        return float(weight.mean())

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        weaker = decayed(0.0, 0.1, compression=hvd.Compression.dgc(momentum=0.9))
    (text,) = [str(each.message) for each in told if "weight_decay" in str(each.message)]
    assert "10 times more slowly" in text and "Multiply weight_decay by 10" in text
    assert [each.filename for each in told if "weight_decay" in str(each.message)] == [__file__]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*weight_decay")
        as_told = decayed(0.0, 1.0, compression=hvd.Compression.dgc(momentum=0.9))
    want = decayed(0.9, 0.1)
    assert weaker > 2 * want and abs(as_told - want) < 0.02, (weaker, as_told, want)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distributed(hvd.Compression.dgc(momentum=0.9))
        decayed(0.0, 0.1, compression=hvd.Compression.dgc(momentum=0.0))


@check()
def a_checkpoint_has_the_epoch_of_dgcs_warm_up(here: Here) -> None:
    dgc = hvd.Compression.dgc(0.01, momentum=0.0, warmup_epochs=4)
    net, optimizer = distributed(dgc)
    dgc.on_epoch(2)
    run_steps(here, net, optimizer, 1)
    saved = copy.deepcopy(optimizer.state_dict())
    resumed = hvd.Compression.dgc(0.01, momentum=0.0, warmup_epochs=4)
    _, other = distributed(resumed, model())
    assert resumed.density_now() != dgc.density_now()
    other.load_state_dict(saved)
    assert resumed.density_now() == dgc.density_now()
    del saved["compression"]["epoch"]  # of an older version: the epoch stays
    resumed.on_epoch(3)
    other.load_state_dict(saved)
    assert resumed.density_now() == 0.01 ** (4 / 5)


@check()
def dgc_has_momentum_on_one_rank_as_on_many(here: Here) -> None:
    alone = hvd.add_process_set([here.rank], name=f"rank.{here.rank}")
    plain, net = model(), model()
    sgd = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9)
    _, optimizer = distributed(
        hvd.Compression.dgc(1.0, momentum=0.9, masking=False), net, process_set=alone
    )
    for x, y in batches(here, 4, torch.float64):
        for each, trained in ((sgd, plain), (optimizer, net)):
            each.zero_grad()
            mean_square(trained, x, y).backward()
            each.step()
    for mine, other in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)


@check(nesterov=(False, True))
def what_dgc_leaves_dense_goes_as_it_is(here: Here, nesterov: bool) -> None:
    dgc = hvd.Compression.dgc(momentum=0.9, nesterov=nesterov, skip="*")
    nets = []
    for momentum, options in ((0.0, {"compression": dgc}), (0.9, {})):
        net = model()
        sgd = torch.optim.SGD(
            net.parameters(), lr=0.05, momentum=momentum, nesterov=nesterov and momentum > 0
        )
        optimizer = hvd.DistributedOptimizer(sgd, net.named_parameters(), **options)
        run_steps(here, net, optimizer, 6)
        nets.append(net)
        reducer = optimizer._hvd.reducer
        if momentum == 0.0:
            assert all(entry.momentum is not None for entry in reducer.entries)
    for mine, other in zip(*(net.parameters() for net in nets), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)
    equal_everywhere(nets[0])


@check()
def a_bias_with_nan_keeps_the_momentum_that_it_had_under_dgc(here: Here) -> None:
    dgc = hvd.Compression.dgc(momentum=0.5)
    net, optimizer = distributed(dgc)
    biases = {name: p for name, p in net.named_parameters() if p.dim() == 1}
    first, *others = biases
    for poison in (0.0, math.nan, 0.0):
        for name, parameter in net.named_parameters():
            parameter.grad = torch.ones_like(parameter)
            if name == first and here.rank == here.size - 1:
                parameter.grad[0] += poison
        optimizer.synchronize()
        assert math.isnan(biases[first].grad.sum().item()) == math.isnan(poison)
    memory = dgc.state_dict()["memory"]
    assert (memory[first]["velocity"] == 1.5).all()
    for name in others:
        assert (memory[name]["velocity"] == 1.75).all() and (biases[name].grad == 1.75).all()


@check(min_ranks=2)
def one_memory_is_for_one_optimizer(here: Here) -> None:
    compression = hvd.Compression.topk()
    first = distributed(compression)
    with raises(ValueError, "topk(density=0.01) has the memory of another optimizer"):
        distributed(compression)
    del first


@check(min_ranks=2)
def ranks_that_compress_differently_are_told_by_name(here: Here) -> None:
    mine = hvd.Compression.topk() if here.rank else hvd.Compression.dgc(momentum=0.0)
    net, optimizer = distributed(mine)
    with raises(
        hvd.MismatchError,
        "Rank 0 sends gradients with dgc(density=0.001, momentum=0), but rank 1 with topk",
    ):
        run_steps(here, net, optimizer, 1)


@check(min_ranks=2)
def auto_compresses_where_steps_get_shorter(here: Here) -> None:
    compression = on_a_slow_network(hvd.Compression.auto())
    net, optimizer = distributed(compression)
    encoded = [hvd.metrics()["bytes_encoded"]]
    for _ in range(10):
        run_steps(here, net, optimizer, 1)
        encoded.append(hvd.metrics()["bytes_encoded"])
    grows = [after > before for before, after in zip(encoded, encoded[1:], strict=False)]
    assert grows == [False, *[True, False] * 3, True, True, True], grows
    assert "int8(error_feedback=True); a step takes 2 s dense, 1 s with" in compression.said
    equal_everywhere(net)


@check(min_ranks=2)
def auto_decides_before_an_allreduce(here: Here) -> None:
    compression = on_a_slow_network(hvd.Compression.auto([hvd.Compression.sign()]))
    before = hvd.metrics()["bytes_encoded"]
    hvd.allreduce(torch.randn(32, 32), name="chosen", compression=compression)
    assert hvd.metrics()["bytes_encoded"] > before

    compression = on_a_slow_network(hvd.Compression.auto([hvd.Compression.bf16]))
    ones = torch.full((8, 8), 1.0 + 2.0**-10)
    total = hvd.allreduce(ones, op=hvd.Sum, name="narrow", compression=compression)
    assert torch.equal(total, torch.full((8, 8), float(here.size))) and total.dtype == ones.dtype
    assert "bfloat16" in compression.said


@check(min_ranks=2)
def onebit_adam_goes_on_from_a_checkpoint(here: Here) -> None:
    net, again = model(), model()
    optimizer = hvd.OneBitAdam(net.parameters(), lr=0.01, freeze_step=2)
    run_steps(here, net, optimizer, 5)
    equal_everywhere(net)
    again.load_state_dict(net.state_dict())
    resumed = hvd.OneBitAdam(again.parameters(), lr=0.01, freeze_step=2)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    run_steps(here, net, optimizer, 2)
    run_steps(here, again, resumed, 2)
    for mine, other in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, other)
