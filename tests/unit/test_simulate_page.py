"""benchmarks/simulate: its jobs, its page, and Horovod's published efficiency."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
PAGES = ROOT / "docs" / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks_on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("shaped", "simulate_jobs", "simulate_report", "report", "targets", "workloads"):
        sys.modules.pop(name, None)


def test_horovods_published_efficiency_is_predicted_within_five_points() -> None:
    import simulate_jobs

    found = {p.model: (p, simulate_jobs.published_efficiency(p)) for p in simulate_jobs.PUBLISHED}
    assert set(found) == {"inception_v3", "resnet101", "vgg16"}
    for published, efficiency in found.values():
        assert abs(efficiency - published.efficiency) < 0.05


def test_the_assumptions_of_that_prediction_are_the_commands_defaults() -> None:
    import simulate_jobs

    from hvdlite.tools.simulate import options
    from hvdlite.tools.simulate.cluster import Cluster

    assert Cluster(ranks=512, ranks_per_host=4) == simulate_jobs.PUBLISHED_CLUSTER
    assert simulate_jobs.PUBLISHED_OPTIONS.jitter == options.ASSUMED_JITTER


def test_a_badly_ordered_ring_is_predicted_to_take_twice_as_long() -> None:
    import simulate_jobs

    by_name = {job.name: job for job in simulate_jobs.JOBS}
    good = by_name["ring, 2 × 2 ranks in order (Gloo)"].predicted(8 << 20, 0.0)
    bad = by_name["ring, 2 × 2 ranks interleaved (Gloo)"].predicted(8 << 20, 0.0)
    assert bad / good == pytest.approx(2, rel=0.01)


def test_every_job_is_predicted_from_the_bytes_on_its_cards() -> None:
    import shaped
    import simulate_jobs

    size = 8 << 20
    rate = simulate_jobs.MEGABITS * 1e6 / 8 * shaped.GOODPUT
    crossed = {job.name: job.predicted(size, 0.0) * rate / size for job in simulate_jobs.JOBS}
    assert crossed == pytest.approx(
        {
            "ring, 2 hosts (Gloo)": 1.0,
            "ring, 4 hosts (Gloo)": 1.5,
            "ring, 8 hosts (Gloo)": 1.75,
            "ring, 2 × 2 ranks in order (Gloo)": 1.5,
            "ring, 2 × 2 ranks interleaved (Gloo)": 3.0,
            "direct, 2 hosts": 1.0,
            "direct, 4 hosts": 1.5,
            "direct, 8 hosts": 1.75,
            "direct, 2 × 2 ranks, flat": 2.0,
            "hierarchical, 2 × 2 ranks": 1.0,
            "hierarchical, 2 × 2 ranks, float16": 1.5,
            "ring allgather, 4 hosts": 3.0,
        },
        rel=0.01,
    )


def test_the_page_is_what_the_record_says() -> None:
    import simulate_report

    results = json.loads((PAGES / "data" / "simulate.json").read_text())
    notes = (FOLDER / "simulate_notes.md").read_text()
    assert (PAGES / "simulate.md").read_text() == simulate_report.write(results, notes)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [((0, 0, 1, 1), 1), ((0, 1, 0, 1), 2), ((0, 0, 0), 0), ((0, 1, 2), 1), ((0, 0, 1, 0, 1, 1), 2)],
)
def test_a_ring_crosses_a_card_as_often_as_its_order_says(
    hosts: tuple[int, ...], expected: int
) -> None:
    import simulate_jobs

    assert simulate_jobs.crossings(hosts) == expected
