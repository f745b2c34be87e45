"""Encoded allreduces, as hvdlite/adapter asks the core for them (docs/decisions/0014-codecs.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import AVERAGE, MAX, SUM, Here, raises
from hvdlite import _core

# With the parameter, and how much smaller it is than float32 at least.
CODECS: dict[str, tuple[float, float]] = {
    "int8": (0, 3.8),
    "fp8": (0, 3.8),
    "sign": (0, 27),
    "ternary": (2.5, 14),
    "threshold": (0.5, 15.9),
    "qsgd": (7, 7.5),
}
# Empty, 0-d, smaller than a block, and of many blocks.
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (3,), (70, 50), (20_011,))


def _submit(
    name: str,
    tensor: np.ndarray,
    codec: str,
    residual: np.ndarray | None = None,
    output: np.ndarray | None = None,
    *,
    parameter: float | None = None,
    op: int = SUM,
    scales: tuple[float, float] = (1.0, 1.0),
    step: int = 0,
) -> int:
    number, _ = _core.codecs()[codec]
    wanted = CODECS[codec][0] if parameter is None else parameter
    return _core.submit_encoded(
        op, 0, name, tensor, output, *scales, number, wanted, residual, 1, step, False
    )


def _allreduce(*arguments: Any, **keywords: Any) -> np.ndarray:
    result = _core.wait(_submit(*arguments, **keywords))[0]
    assert isinstance(result, np.ndarray)
    return result


@check(codec=CODECS)
def error_feedback_loses_nothing_and_all_ranks_have_the_same_bits(here: Here, codec: str) -> None:
    """sum_t result_t + sum_k residual_k,T == sum_t sum_k g_k,t"""
    residuals = [np.zeros(shape, np.float32) for shape in SHAPES]
    got = [np.zeros(shape) for shape in SHAPES]
    wanted = [np.zeros(shape) for shape in SHAPES]
    for step in range(5):
        # All at once, so that they may travel as one batch.
        mine = [here.data("float32", shape, here.rank, step) for shape in SHAPES]
        handles = [
            _submit(f"{codec}.{i}", tensor, codec, residuals[i], step=step)
            for i, tensor in enumerate(mine)
        ]
        for i, handle in enumerate(handles):
            result = _core.wait(handle)[0]
            assert isinstance(result, np.ndarray) and result.dtype == np.float32
            here.saw(result)
            got[i] += result
            wanted[i] += np.sum(here.everyones("float32", SHAPES[i], step), axis=0, dtype=float)
    here.settle()
    for i, residual in enumerate(residuals):
        kept = hvd.allreduce(residual.astype(float), op=SUM, name=f"{codec}.kept.{i}")
        np.testing.assert_allclose(got[i] + kept, wanted[i], atol=2e-3)


@check(codec=CODECS)
def the_bits_do_not_depend_on_what_travels_along(here: Here, codec: str) -> None:
    tensors = [here.data("float32", shape, here.rank) for shape in SHAPES]
    alone = [_allreduce(f"{codec}.b{i}", tensor, codec) for i, tensor in enumerate(tensors)]
    handles = [_submit(f"{codec}.b{i}", tensor, codec) for i, tensor in enumerate(tensors)]
    for expected, handle in zip(alone, handles, strict=True):
        result = _core.wait(handle)[0]
        assert isinstance(result, np.ndarray) and result.tobytes() == expected.tobytes()


@check()
def an_average_is_near_and_scaled_and_may_be_in_place(here: Here) -> None:
    everyones = here.everyones("float32", (5000,))
    want = np.mean(everyones, axis=0) * 0.5 * 4
    tensor = everyones[here.rank].copy()
    got = _allreduce("c.average", tensor, "int8", op=AVERAGE, scales=(0.5, 4.0))
    # half a step of the greatest element, of each rank and of the sum
    np.testing.assert_allclose(got, want, atol=2 * 20 / 127 * 2)
    _core.wait(_submit("c.average", tensor, "int8", None, tensor, op=AVERAGE, scales=(0.5, 4.0)))
    assert tensor.tobytes() == got.tobytes()


@check(min_ranks=2, codec=CODECS)
def a_nan_reaches_all_ranks_and_no_residual(here: Here, codec: str) -> None:
    residual = np.zeros(9000, np.float32)
    _allreduce(f"{codec}.nan", here.data("float32", (9000,), here.rank), codec, residual)
    before = residual.copy()
    tensor = here.data("float32", (9000,), here.rank, "again")
    if here.rank == here.size - 1:
        tensor[4321] = np.inf
    got = _allreduce(f"{codec}.nan", tensor, codec, residual, step=1)
    nan = np.isnan(got)
    assert nan[4321] and nan.sum() <= 1024
    if here.rank == here.size - 1:
        assert (residual[nan] == before[nan]).all()
    # The other ranks take back what they have kept, up to a rounding of numbers below 20.
    np.testing.assert_allclose(residual[nan], before[nan], rtol=0, atol=2e-5)
    assert np.isfinite(residual).all()
    here.same_on_all_ranks(f"{np.flatnonzero(nan)}")


@check(codec=CODECS)
def the_bytes_on_the_way_are_counted(here: Here, codec: str) -> None:
    def counted() -> np.ndarray:
        metrics = hvd.metrics()
        return np.array([metrics["bytes_before_encoding"], metrics["bytes_encoded"]])

    before = counted()
    _allreduce(f"{codec}.bytes", np.ones(200_000, np.float32), codec)
    raw, sent = counted() - before
    if here.size == 1:
        assert raw == sent == 0
    elif here.communicator != "hierarchical":
        assert raw >= 4 * 200_000 and raw / sent >= CODECS[codec][1]
    elif sent:  # this rank is on a rail
        assert raw / sent >= CODECS[codec][1]


@check(min_ranks=2)
def ranks_with_different_codecs_are_told_so(here: Here) -> None:
    for odd in (0, here.size - 1):
        for other, words in (
            ({"codec": "ternary", "parameter": 3.0}, "ternary(clip=3)"),
            ({"codec": "sign"}, "codec sign"),
        ):
            chosen: dict[str, Any] = other if here.rank == odd else {"codec": "ternary"}
            with raises(hvd.MismatchError, "ternary(clip=2.5)", words, f"rank {odd} ") as caught:
                _allreduce("c.odd", np.ones(5, np.float32), **chosen)
            here.same_on_all_ranks(f"{caught[0]}")
        with raises(hvd.MismatchError, "asked for no codec", "codec int8"):
            if here.rank == odd:
                hvd.allreduce(np.ones(5, np.float32), op=SUM, name="c.none")
            else:
                _allreduce("c.none", np.ones(5, np.float32), "int8")


@check()
def a_name_may_come_with_a_codec_and_without_by_turns(here: Here) -> None:
    """Small blocking allreduces meet without a negotiation where all know the name."""
    tensor = here.data("float32", (100,), here.rank)
    want = np.sum(here.everyones("float32", (100,)), axis=0, dtype=np.float32)
    for _ in range(4):
        exact = hvd.allreduce(tensor, op=SUM, name="c.turns")
        np.testing.assert_allclose(exact, want, rtol=1e-4, atol=1e-5)
        encoded = _allreduce("c.turns", tensor, "sign")
        assert (
            len(np.unique(np.abs(encoded))) <= 2**here.size and np.abs(encoded - want).max() > 0.1
        )


@check(min_ranks=2)
def those_who_joined_contribute_zeros(here: Here) -> None:
    if here.rank != 0:
        got = _allreduce("c.join", np.full(3000, 2.0, np.float32), "int8")
        np.testing.assert_allclose(got, 2.0 * (here.size - 1), rtol=0.02)
    assert hvd.join() in here.ranks


@check()
def what_a_codec_cannot_do_is_refused_at_the_call(here: Here) -> None:
    floats = np.ones(8, np.float32)
    for words, arguments, keywords in (
        (("clip", "0.1"), (floats, "ternary"), {"parameter": -1.0}),
        (("levels", "127"), (floats, "qsgd"), {"parameter": 128.0}),
        (("t of codec threshold",), (floats, "threshold"), {"parameter": float("nan")}),
        (("float32", "float64"), (np.ones(8), "int8"), {}),
        (("Average or Sum", "Max"), (floats, "int8"), {"op": MAX}),
        (("residual", "[8]", "[7]"), (floats, "int8", np.zeros(7, np.float32)), {}),
        (("residual", "float64"), (floats, "int8", np.zeros(8)), {}),
    ):
        with raises(ValueError, *words):
            _submit("c.refused", *arguments, **keywords)
    assert hvd.allreduce(floats, op=SUM, name="c.after").tolist() == [here.size] * 8
