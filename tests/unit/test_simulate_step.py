"""hvdlite.tools.simulate: schedules, fusion, overlap, jitter, predictions."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import mean

import pytest

from hvdlite.base import knobs
from hvdlite.tools.simulate import models, schedule
from hvdlite.tools.simulate.choice import Carried
from hvdlite.tools.simulate.cluster import Cluster
from hvdlite.tools.simulate.models import Layer
from hvdlite.tools.simulate.predict import RunOptions, expected_maximum, predict, run_step, stretch
from hvdlite.tools.simulate.schedule import Gradient, Schedule

TWO_LAYERS = [
    Layer("first", (("weight", 10), ("bias", 1)), work=1.0),
    Layer("last", (("weight", 20),), work=3.0),
]


def gradients(*rows: tuple[float, float]) -> tuple[Gradient, ...]:
    return tuple(Gradient(f"g{i}", size, ready) for i, (size, ready) in enumerate(rows))


def test_gradients_are_ready_in_the_backward_pass_by_the_work_of_their_layers() -> None:
    found = schedule.of_model(TWO_LAYERS, 3.0)
    assert [(g.name, g.size) for g in found.gradients] == [
        ("last.weight", 80),
        ("first.bias", 4),
        ("first.weight", 40),
    ]
    # The forward pass takes 1 s; the last layer has 3/4 of the backward pass' 2 s.
    assert [g.ready for g in found.gradients] == pytest.approx([2.5, 3.0, 3.0])
    assert found.seconds == 3.0 and found.size == 124


@pytest.mark.parametrize("name", models.MODELS)
def test_every_model_ends_its_step_with_its_last_gradient(name: str) -> None:
    found = schedule.of_model(models.MODELS[name](), 0.25)
    ready = [g.ready for g in found.gradients]
    assert ready == sorted(ready)
    assert ready[-1] == pytest.approx(0.25)
    assert ready[0] > 0.25 / 3


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_step_takes_time(seconds: float) -> None:
    with pytest.raises(ValueError, match="a step takes time"):
        schedule.of_model(TWO_LAYERS, seconds)


@pytest.mark.parametrize(
    ("rows", "threshold", "window", "expected"),
    [
        # Within the window they travel together.
        ([(4, 0.0), (4, 0.5), (4, 2.0)], 100, 1.0, [(8, 2, 0.5), (4, 1, 2.0)]),
        # A batch that would exceed the threshold is closed.
        ([(4, 0.0), (4, 0.0), (4, 0.0)], 8, 1.0, [(8, 2, 0.0), (4, 1, 0.0)]),
        # A gradient above the threshold travels alone.
        ([(4, 0.0), (50, 0.0), (4, 0.0)], 8, 1.0, [(4, 1, 0.0), (50, 1, 0.0), (4, 1, 0.0)]),
        # 0 turns fusion off.
        ([(4, 0.0), (4, 0.0)], 0, 1.0, [(4, 1, 0.0), (4, 1, 0.0)]),
        ([], 8, 1.0, []),
    ],
)
def test_fusion(
    rows: list[tuple[float, float]],
    threshold: float,
    window: float,
    expected: list[tuple[float, int, float]],
) -> None:
    batches = schedule.plan(gradients(*rows), threshold, window)
    assert [(b.size, b.tensors, b.submitted) for b in batches] == expected


def test_the_defaults_are_those_of_the_knobs() -> None:
    assert knobs.by_field("fusion_threshold").default == schedule.THRESHOLD
    assert knobs.by_field("cycle_time").default == pytest.approx(1e3 * schedule.WINDOW)


# The network takes a second for each byte.
def slowly(size: float, cluster: Cluster, half: bool) -> Carried:
    return Carried(f"{size:g} bytes", size)


@pytest.mark.parametrize(
    ("computes", "rows", "seconds"),
    [
        (10.0, [(2, 1.0), (3, 5.0)], 10.0),  # all of it is hidden
        (10.0, [(2, 1.0), (3, 10.0)], 13.0),  # the last batch is not
        (10.0, [(8, 1.0), (3, 5.0)], 12.0),  # batches follow one another
        (10.0, [], 10.0),
    ],
)
def test_batches_run_beside_the_computation_and_one_after_another(
    computes: float, rows: list[tuple[float, float]], seconds: float
) -> None:
    batches = schedule.plan(gradients(*rows), window=0.0)
    free = Cluster(ranks=2, latency=0.0, message_overhead=0.0)
    found = run_step(computes, batches, free, slowly)
    assert found.seconds == pytest.approx(seconds, abs=1e-4)  # negotiation takes microseconds
    assert found.communication == sum(size for size, _ in rows)


def test_the_largest_batch_names_what_carried_it() -> None:
    batches = schedule.plan(gradients((2, 0.0), (5, 1.0), (3, 2.0)), window=0.0)
    assert run_step(1.0, batches, Cluster(ranks=2), slowly).how == "5 bytes"


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [(1, 0.0), (2, 0.5642), (8, 1.4236), (64, 2.3437), (500, 3.0367), (1000, 3.2414)],
)
def test_the_expected_maximum_of_normal_draws(ranks: int, expected: float) -> None:
    assert expected_maximum(ranks) == pytest.approx(expected, abs=2e-3)


def test_the_expected_maximum_is_that_of_seeded_draws() -> None:
    draw = random.Random(7)
    maxima = [max(draw.gauss(0, 1) for _ in range(16)) for _ in range(4000)]
    assert expected_maximum(16) == pytest.approx(mean(maxima), abs=0.05)


def test_jitter_stretches_the_slowest_ranks_step() -> None:
    assert stretch(1, 0.1) == 1.0
    assert stretch(512, 0.0) == 1.0
    assert stretch(512, 0.02) == pytest.approx(1.061, abs=1e-3)


def resnet() -> Schedule:
    return schedule.of_model(models.MODELS["resnet50"](), 0.25)


def test_one_rank_has_nothing_to_wait_for() -> None:
    found = predict(resnet(), Cluster(ranks=1), options=RunOptions(jitter=0.1))
    assert found.step == 0.25 and found.efficiency == 1.0 and found.batches == 0


def test_efficiency_falls_with_ranks_and_rises_with_bandwidth_and_compression() -> None:
    def efficiency(ranks: int, gigabits: float, compression: str = "none") -> float:
        cluster = Cluster(ranks=ranks, ranks_per_host=4, bandwidth=gigabits * 1e9 / 8)
        return predict(resnet(), cluster, compression, RunOptions(jitter=0.02)).efficiency

    assert efficiency(8, 1) > efficiency(64, 1) > efficiency(512, 1)
    assert efficiency(64, 1) < efficiency(64, 2.5) < efficiency(64, 10)
    assert efficiency(64, 1) < efficiency(64, 1, "fp16") == efficiency(64, 1, "bf16")


def test_without_overlap_the_network_comes_on_top() -> None:
    cluster = Cluster(ranks=8, bandwidth=10e9 / 8)
    beside = predict(resnet(), cluster)
    after = predict(resnet(), cluster, options=RunOptions(overlap=False))
    assert after.waits > beside.waits
    assert after.step == pytest.approx(0.25 + after.communication, rel=0.02)


def test_a_prediction_adds_up() -> None:
    found = predict(resnet(), Cluster(ranks=64, bandwidth=1e9 / 8), options=RunOptions(jitter=0.02))
    assert found.computes == pytest.approx(0.25 * stretch(64, 0.02))
    assert found.waits == pytest.approx(found.step - found.computes)
    assert found.speedup == pytest.approx(64 * 0.25 / found.step)


def test_a_schedule_stretches_and_shrinks() -> None:
    one = Schedule(gradients((8, 1.0)), 2.0)
    assert one.stretched(1.5) == Schedule(gradients((8, 1.5)), 3.0)
    assert one.compressed(0.5) == replace(one, gradients=gradients((4, 1.0)))
