"""hvd.progress(): what is shown of a loop, and that nothing of it disturbs the loop."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hvdlite.job import progress as module
from hvdlite.job.pace import WINDOW_SECONDS, Rate, about_others, duration, line, number
from hvdlite.job.progress import progress


@pytest.mark.parametrize(
    ("mine", "others", "waited", "said"),
    [
        (10.0, {}, {}, ""),
        (10.0, {1: 9.5, 2: 10.2}, {}, ""),  # noise
        (10.0, {1: 7.0, 2: 3.14159}, {}, "slowest: rank 2, 3.14 step/s"),
        (10.0, {1: 0.0}, {}, "slowest: rank 1, 0 step/s"),
        (10.0, {1: 3.0, 2: 3.0}, {}, "slowest: rank 1, 3 step/s"),
        # As fast as one another, because each step has a collective.
        (10.0, {1: 10.0}, {0: 0.02, 1: 0.314}, "31% waits for rank 1"),
        (10.0, {1: 10.0}, {0: 0.5, 1: 0.1}, "50% waits for rank 0"),
        (10.0, {1: 10.0}, {0: 0.02, 1: 0.05}, ""),
        (10.0, {}, {0: 1.0}, ""),  # the only rank
        (10.0, {1: 5.0}, {0: 0.0, 1: 0.5}, "slowest: rank 1, 5 step/s"),
    ],
)
def test_the_slowest_rank_is_named_where_one_stands_out(
    mine: float, others: dict[int, float], waited: dict[int, float], said: str
) -> None:
    assert about_others(mine, others, waited, "step") == said


def test_a_rate_is_that_of_the_window() -> None:
    rate = Rate(0.0)
    fast = [rate.read(float(second), 100 * second) for second in range(1, 20)]
    assert fast == [100.0] * 19
    slow = [rate.read(19.0 + second, 1900 + second) for second in range(1, 20)]
    assert slow[-1] == pytest.approx(1.0) and WINDOW_SECONDS < 19
    assert Rate(5.0, 3).read(5.0, 3) == 0.0


def test_lines_of_a_log() -> None:
    assert line("epoch 1", "step", 450, 1000, 90.0, 5.0, "") == (
        "epoch 1: 450 of 1000 (45%), 5 step/s, 1:50 left"
    )
    assert line("", "batch", 7, None, 65.4, 0.12345, "loss=0.2") == (
        "7, 0.123 batch/s, 1:05 so far, loss=0.2"
    )
    assert line("", "step", 0, 10, 5.0, 0.0, "") == "0 of 10 (0%), 0 step/s, 0:05 so far"
    assert line("", "step", 12, 10, 5.0, 2.0, "") == "12 of 10 (120%), 2 step/s, 0:05 so far"
    assert line("", "step", 0, 0, 0.0, 0.0, "") == "0, 0 step/s, 0:00 so far"
    assert [duration(x) for x in (0, 59.6, 3605)] == ["0:00", "1:00", "1:00:05"]
    assert [number(x) for x in (0, 0.5, 99.5, 123.4)] == ["0", "0.5", "99.5", "123"]


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def rank_0(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """This process, as a rank of a job that needs no other."""
    here = SimpleNamespace(rank=0, clock=_Clock(), err=io.StringIO())
    here.metrics = {"seconds_waited_for_rank": {"0": 0.0, "1": 0.0}}
    here.sys = SimpleNamespace(stderr=here.err)
    monkeypatch.setattr(module, "sys", here.sys)
    monkeypatch.setattr(module.basics, "rank", lambda: here.rank)
    monkeypatch.setattr(module.basics, "size", lambda: 2)
    monkeypatch.setattr(module.basics, "job_store", lambda: None)
    monkeypatch.setattr(module.observe, "metrics", lambda: here.metrics)
    monkeypatch.setattr(module.time, "monotonic", here.clock)
    yield here


def test_a_line_now_and_then_and_one_at_the_end(rank_0: SimpleNamespace) -> None:
    loop = progress(range(50), desc="epoch 1")
    assert len(loop) == 50
    for item in loop:
        rank_0.clock.now += 0.5
        waited = {"0": 0.0, "1": 0.2 * (item + 1)}
        rank_0.metrics = {"seconds_waited_for_rank": waited}
        loop.set_postfix(loss=1 / 3)
    assert rank_0.err.getvalue().splitlines() == [
        "epoch 1: 20 of 50 (40%), 2 step/s, 0:15 left, loss=0.333, 40% waits for rank 1",
        "epoch 1: 40 of 50 (80%), 2 step/s, 0:05 left, loss=0.333, 40% waits for rank 1",
        "epoch 1: 50 of 50 (100%), 2 step/s, 0:25 so far, loss=0.333, 40% waits for rank 1",
    ]


def test_other_ranks_are_silent_and_get_the_same_items(rank_0: SimpleNamespace) -> None:
    rank_0.rank = 1
    seen = []
    for item in progress(iter("abc"), total=3):
        rank_0.clock.now += 100
        seen.append(item)
    assert seen == ["a", "b", "c"] and rank_0.err.getvalue() == ""


def test_break_and_an_exception_end_the_loop_at_once(rank_0: SimpleNamespace) -> None:
    for item in progress(range(10)):
        rank_0.clock.now += 1
        if item == 3:
            break
    assert rank_0.err.getvalue() == "3 of 10 (30%), 0.75 step/s, 0:09 left\n"

    def fails() -> None:
        for item in progress(range(10), desc="second"):
            rank_0.clock.now += 1
            if item == 2:
                raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        fails()
    assert rank_0.err.getvalue().count("second: 2 of 10") == 1


def test_a_source_without_a_length(rank_0: SimpleNamespace) -> None:
    class Loader:
        def __len__(self) -> int:
            raise TypeError("the data set has no length")

        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    assert list(progress(Loader())) == [0, 1, 2]
    assert list(progress(x for x in "ab")) == ["a", "b"]
    assert rank_0.err.getvalue().splitlines()[0].startswith("3, ")
    with pytest.raises(TypeError):
        len(progress(Loader()))


def test_a_loop_over_it_may_be_begun_again(rank_0: SimpleNamespace) -> None:
    loop = progress([1, 2])
    assert [list(loop), list(loop)] == [[1, 2], [1, 2]]
    assert rank_0.err.getvalue().count("2 of 2") == 2


def test_a_reader_that_has_gone_does_not_end_the_loop(
    rank_0: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    rank_0.sys.stderr = Gone()
    assert list(progress(range(3))) == [0, 1, 2]
    rank_0.sys.stderr = None
    assert list(progress(range(3))) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_tqdms(rank_0: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    tqdm = pytest.importorskip("tqdm", reason="tqdm is not installed: pip install tqdm")
    made: list[Any] = []
    real = tqdm.tqdm
    monkeypatch.setattr(tqdm, "tqdm", lambda **options: made.append(real(**options)) or made[-1])
    rank_0.sys.stderr = _Terminal()
    for item in progress(range(8), desc="epoch 2", unit="batch"):
        rank_0.clock.now += 1
        if item == 5:
            break
    [bar] = made
    assert (bar.n, bar.total, bar.unit, bar.disable) == (5, 8, "batch", True)
    shown = rank_0.sys.stderr.getvalue()
    assert shown.rpartition("\r")[2].startswith("epoch 2:  62%") and shown.endswith("\n")


def test_without_tqdm_a_terminal_gets_lines(
    rank_0: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    rank_0.sys.stderr = _Terminal()
    assert list(progress(range(3))) == [0, 1, 2]
    assert rank_0.sys.stderr.getvalue().startswith("3 of 3")
