"""hvdlite.torch: allreduce in all its forms, for every dtype and in process sets, against numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check
from checks.among import process_sets
from checks.here import FLOATS, INTEGERS, OPS, SHAPES, SUM, Here, adasum_tree, raises, reference
from checks.torch_here import TORCH_DTYPES, array, tensor

Tensors = list[torch.Tensor]


def _each(one: Callable[..., Any]) -> Callable[..., Tensors]:
    return lambda tensors, name, **how: [one(t, name=f"{name}.{i}", **how) for i, t in enumerate(tensors)]


def _each_async(one: Callable[..., int]) -> Callable[..., Tensors]:
    def run(tensors: Tensors, name: str, **how: Any) -> Tensors:
        handles = [one(t, name=f"{name}.{i}", **how) for i, t in enumerate(tensors)]
        return [hvd.synchronize(handle) for handle in handles]

    return run


def _waited(start: Callable[..., int]) -> Callable[..., tuple[torch.Tensor, ...]]:
    def run(tensors: Tensors, **how: Any) -> tuple[torch.Tensor, ...]:
        results = hvd.synchronize(start(tensors, **how))
        assert isinstance(results, tuple)
        return results

    return run


FORMS: dict[str, tuple[Callable[..., Any], bool]] = {
    "plain": (_each(hvd.allreduce), False),
    "async": (_each_async(hvd.allreduce_async), False),
    "in place": (_each(hvd.allreduce_), True),
    "async in place": (_each_async(hvd.allreduce_async_), True),
    "grouped": (hvd.grouped_allreduce, False),
    "grouped async": (_waited(hvd.grouped_allreduce_async), False),
    "grouped in place": (hvd.grouped_allreduce_, True),
    "grouped async in place": (_waited(hvd.grouped_allreduce_async_), True),
}


@check(dtype=TORCH_DTYPES, seconds=40)
def every_form_in_every_process_set_is_numpys(here: Here, dtype: str) -> None:
    with process_sets(here) as sets:
        for among, (form, (run, in_place)), (label, op) in itertools.product(sets, FORMS.items(), OPS.items()):
            inputs = [among.of(here.everyones(dtype, shape, label, op=op)) for shape in SHAPES]
            mine = [tensor(each[among.mine]) for each in inputs]
            got = run(mine, name=f"{form}.{label}", op=op, process_set=among.process_set)
            for each, result, given in zip(inputs, got, mine, strict=True):
                here.close(array(result), reference(each, op), f"{form} {label} of {each[0].shape}")
                assert (result is given) == in_place, f"{form}: returns the tensor itself only in place"
                if not in_place:
                    assert array(given).tobytes() == each[among.mine].tobytes(), f"{form}: the input was written to"


@check(dtype=[d for d in TORCH_DTYPES if d != "bool"])
def factors_are_applied_in_every_form(here: Here, dtype: str) -> None:
    pre, post = (0.5, 3.0) if dtype not in INTEGERS else (2.0, 0.25)
    with process_sets(here) as sets:
        for among, (form, (run, _)), op in itertools.product(sets, FORMS.items(), (SUM, hvd.Average)):
            inputs = among.of(here.everyones(dtype, (7, 5)))
            how = {"op": op, "prescale_factor": pre, "postscale_factor": post, "process_set": among.process_set}
            got = run([tensor(inputs[among.mine])], name=f"scaled.{form}", **how)
            here.close(array(got[0]), reference(inputs, op, pre, post), form)


@check(dtype=FLOATS)
def adasum_is_the_formula(here: Here, dtype: str) -> None:
    inputs = here.everyones(dtype, (65,))
    got = array(hvd.allreduce(tensor(inputs[here.rank]), op=hvd.Adasum)).astype("float64")
    tolerance = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-5, "float64": 1e-12}[dtype]
    assert abs(got - adasum_tree(inputs)).max() < tolerance * 16


@check()
def memory_that_is_not_contiguous_is_read_and_written_as_it_lies(here: Here) -> None:
    inputs = here.everyones("float32", (4, 6))
    want = reference(inputs, SUM)
    for transposed in (tensor(inputs[here.rank].T).t(), tensor(inputs[here.rank].repeat(2, axis=1))[:, ::2]):
        assert not transposed.is_contiguous()
        here.close(array(hvd.allreduce(transposed, op=SUM)), want)
        before = transposed.stride()
        assert hvd.allreduce_(transposed, op=SUM) is transposed and transposed.stride() == before
        here.close(array(transposed.contiguous()), want)
    image = torch.full((2, 3, 4, 4), float(here.rank)).to(memory_format=torch.channels_last)
    hvd.synchronize(hvd.grouped_allreduce_async_([image], op=SUM))
    assert (image == sum(here.ranks)).all() and image.is_contiguous(memory_format=torch.channels_last)


@check(form=("none", "fp16", "bf16"))
def compression_keeps_the_dtype_and_leaves_integers_alone(here: Here, form: str) -> None:
    compression = getattr(hvd.Compression, form)
    for dtype in ("float64", "float32", "float16", "int32"):
        inputs = here.everyones(dtype, (33,))
        mine = tensor(inputs[here.rank])
        narrow = {"none": mine.dtype, "fp16": torch.float16, "bf16": torch.bfloat16}[form]
        travelled = [tensor(i).to(narrow) if mine.is_floating_point() else tensor(i) for i in inputs]
        want = tensor(reference([array(t) for t in travelled], SUM)).to(mine.dtype)
        for got in (
            hvd.allreduce(mine, op=SUM, compression=compression),
            hvd.grouped_allreduce([mine], op=SUM, compression=compression)[0],
        ):
            here.close(array(got), array(want), f"{form} of {dtype}")


@check()
def the_old_word_average_is_understood(here: Here) -> None:
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert (hvd.allreduce_(torch.ones(3), False, "positional") == here.size).all()
        assert (hvd.allreduce(torch.ones(3), average=True) == 1).all()
    assert [w.category for w in caught] == [DeprecationWarning] * 2
    assert (hvd.allreduce_(torch.ones(3), None, "positional", hvd.Sum) == here.size).all()
    with raises(ValueError, "op= and average="):
        hvd.allreduce(torch.ones(3), average=True, op=hvd.Sum)


@check()
def a_result_in_place_is_noticed_by_autograd(here: Here) -> None:
    weight = torch.ones(3, requires_grad=True)
    base = torch.ones(3)
    product = weight * base
    hvd.synchronize(hvd.allreduce_async_(base, op=SUM))
    with raises(RuntimeError, "modified by an inplace operation"):
        product.sum().backward()
    # A leaf may be overwritten: who asks for that means its value.
    with torch.no_grad():
        weight += here.rank
    assert hvd.broadcast_(weight, 0) is weight and weight.tolist() == [1, 1, 1] and weight.requires_grad


@check()
def tensors_of_inference_mode_are_tensors(here: Here) -> None:
    with torch.inference_mode():
        place = torch.ones(3)
        assert (hvd.allreduce(place, op=SUM) == here.size).all()
        assert hvd.allreduce_(place, op=SUM) is place and (place == here.size).all()
