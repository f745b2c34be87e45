"""hvd.metric_scalars(): hvdlite's numbers for writers of scalars."""

from __future__ import annotations

from typing import Any

import pytest

from hvdlite.job import scalars

NAMES = {
    "hvdlite/step_seconds",
    "hvdlite/waiting_ratio",
    "hvdlite/moving_ratio",
    "hvdlite/operations_per_second",
    "hvdlite/bytes_per_second",
}


class Core:
    """What the core has counted, and the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 50.0
        self.counters: dict[str, Any] = {}
        self.recent: list[dict[str, Any]] = []
        monkeypatch.setattr(scalars.observe, "metrics", lambda: dict(self.counters))
        monkeypatch.setattr(scalars.observe, "recent_operations", lambda: self.recent)
        monkeypatch.setattr(scalars.time, "monotonic", lambda: self.now)

    def pass_by(self, seconds: float, operations: int, **more: float) -> None:
        before = self.counters.get("operations", 0)
        self.now += seconds
        for name, growth in {"operations": operations, **more}.items():
            self.counters[name] = self.counters.get(name, 0) + growth
        times = {"submitted": 0.0, "agreed": 0.0, "done": 0.0}
        self.recent += [
            {"number": number, "process_set": 0, "name": f"layer{number % 10}", **times}
            for number in range(before, before + operations)
        ]


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Core:
    return Core(monkeypatch)


def test_a_reading_covers_the_time_since_the_one_before(core: Core) -> None:
    reader = scalars.Scalars()
    assert reader.read() == dict.fromkeys(NAMES, 0.0)
    core.pass_by(4.0, 200, bytes=8000, seconds_negotiating=1.0, seconds_moving=2.0)
    assert reader.read() == {
        "hvdlite/step_seconds": pytest.approx(0.2),  # 20 steps of 10 operations
        "hvdlite/waiting_ratio": 0.25,
        "hvdlite/moving_ratio": 0.5,
        "hvdlite/operations_per_second": 50.0,
        "hvdlite/bytes_per_second": 2000.0,
    }
    core.pass_by(1.0, 0)
    assert reader.read() == dict.fromkeys(NAMES, 0.0)


def test_the_caller_may_count_the_steps(core: Core) -> None:
    reader = scalars.Scalars()
    core.recent.clear()
    core.pass_by(3.0, 7)
    assert reader.read(steps=6)["hvdlite/step_seconds"] == pytest.approx(0.5)
    assert reader.read(steps=0)["hvdlite/step_seconds"] == 0.0


def test_another_job_begins_at_zero(core: Core) -> None:
    core.pass_by(1.0, 500, bytes=1e6)
    reader = scalars.Scalars()
    core.counters = {}
    core.pass_by(2.0, 20, bytes=100)
    read = reader.read()
    assert read["hvdlite/operations_per_second"] == 10.0
    assert read["hvdlite/bytes_per_second"] == 50.0


def test_names_are_the_same_in_each_reading(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalars, "_scalars", None)
    assert set(scalars.metric_scalars()) == NAMES
    core.pass_by(1.0, 10)
    assert scalars.metric_scalars()["hvdlite/operations_per_second"] == 10.0


def test_torchs_tensorboard_writer_takes_them(core: Core, tmp_path: Any) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip(
        "tensorboard", reason="tensorboard is not installed: pip install tensorboard"
    )
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    reader = scalars.Scalars()
    core.pass_by(4.0, 200, bytes=8000)
    with SummaryWriter(str(tmp_path)) as writer:
        for name, value in reader.read().items():
            writer.add_scalar(name, value, 7)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == NAMES
    [event] = events.Scalars("hvdlite/operations_per_second")
    assert (event.step, event.value) == (7, 50.0)
