"""Which gradients travel as factors: tables, without tensors."""

from __future__ import annotations

import pytest

from hvdlite.adapter.local import factors
from hvdlite.adapter.local.factors import NOTHING, Seen, Weight

LARGE = Weight("large", 4096, 1024, 4)
SMALL = Weight("small", 8, 16, 4)


@pytest.mark.parametrize(
    ("weight", "rows", "element", "ranks", "allreduce", "gathered"),
    [
        # 2 * (n - 1) / n of a matrix each way; (n - 1) / n of all rows each way.
        (Weight("", 100, 50, 4), 32, 4, 2, 40_000, 19_200),
        (Weight("", 100, 50, 4), 64, 4, 4, 60_000, 57_600),
        (Weight("", 100, 50, 8), 64, 8, 4, 120_000, 115_200),
        (Weight("", 100, 50, 4), 64, 2, 4, 60_000, 28_800),
        (Weight("", 100, 50, 4), 32, 4, 1, 0, 0),
    ],
)
def test_the_bytes_of_both_ways(
    weight: Weight, rows: int, element: int, ranks: int, allreduce: float, gathered: float
) -> None:
    assert factors.bytes_of_allreduce(weight, ranks) == allreduce
    assert factors.bytes_of_factors(weight, rows, element, ranks) == gathered


@pytest.mark.parametrize(
    ("weight", "rows", "element", "ranks", "pays"),
    [
        (LARGE, 2 * 32, 4, 2, True),
        (LARGE, 16 * 32, 4, 16, True),
        (LARGE, 64 * 32, 4, 64, False),  # rows grow with the ranks
        (LARGE, 1638, 4, 2, True),  # 2 * 4096 * 1024 / (4096 + 1024) is 1638.4
        (LARGE, 1639, 4, 2, False),
        (LARGE, 1639, 2, 2, True),  # autocast halves the factors
        (SMALL, 2 * 4, 4, 2, True),
        (SMALL, 2 * 32, 4, 2, False),
        (LARGE, 1, 4, 1, False),  # alone, nothing travels
    ],
)
def test_factors_travel_where_they_are_fewer_bytes(
    weight: Weight, rows: int, element: int, ranks: int, pays: bool
) -> None:
    assert factors.pays(weight, rows, element, ranks) == pays


def test_the_published_saving() -> None:
    """VGG19-22K's two large layers with a batch of 32: about 27 times less with 8 machines."""
    layers = [Weight("", 25088, 4096, 4), Weight("", 4096, 21841, 4)]
    dense = sum(factors.bytes_of_allreduce(layer, 8) for layer in layers)
    assert 26 < dense / sum(factors.bytes_of_factors(layer, 8 * 32, 4, 8) for layer in layers) < 28


USED = Seen(16, "float32", 4)
SHARED = USED._replace(problem="several modules share it")


@pytest.mark.parametrize(
    ("mode", "everyones", "chosen"),
    [
        ("auto", [[USED, USED], [USED, USED]], {0: "float32"}),
        (True, [[USED, USED], [USED, USED]], {0: "float32", 1: "float32"}),
        ("auto", [[USED, USED], [NOTHING, USED]], {}),  # not on all ranks
        (True, [[USED, USED], [NOTHING, USED]], {1: "float32"}),
        ("auto", [[USED, USED], [SHARED, USED]], {}),  # by what another rank says
        ("auto", [[USED, USED], [USED._replace(dtype="bfloat16"), USED]], {}),
        ("auto", [[USED, USED], [USED._replace(rows=9999), USED]], {}),  # rows of all ranks
        (True, [[NOTHING, NOTHING], [NOTHING, NOTHING]], {}),
    ],
)
def test_all_ranks_choose_alike(
    mode: factors.Mode, everyones: list[list[Seen]], chosen: dict[int, str]
) -> None:
    assert factors.chosen(mode, [LARGE, SMALL], everyones) == chosen


def test_true_refuses_a_weight_whose_factors_are_not_its_gradient() -> None:
    with pytest.raises(ValueError, match=r"'large': several modules share it.*'auto'"):
        factors.chosen(True, [LARGE], [[USED], [SHARED]])


@pytest.mark.parametrize("mode", ["yes", 2, "Auto", []])
def test_other_modes_are_refused(mode: object) -> None:
    with pytest.raises(ValueError, match="expected True, False or 'auto'"):
        factors.checked(mode)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("int8()", None, False, 1), "int8"),
        (("", 2, False, 1), "groups=2"),
        (("", None, True, 1), "Adasum"),
        (("", None, False, 2), "backward_passes_per_step=2"),
    ],
)
def test_what_factors_cannot_travel_beside(
    arguments: tuple[str, object, bool, int], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        factors.check(*arguments)
    factors.check("", None, False, 1)
