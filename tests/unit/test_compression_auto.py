"""hvd.Compression.auto: what it chooses from measurements, and when."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hvdlite._core")

from hvdlite.adapter import announcing  # noqa: E402
from hvdlite.adapter.compression import auto as module  # noqa: E402
from hvdlite.adapter.compression import choosing, codecs  # noqa: E402
from hvdlite.adapter.compression.auto import Auto  # noqa: E402
from hvdlite.adapter.compression.choosing import Curve, Measured, Trial, choice  # noqa: E402
from hvdlite.adapter.compression.dgc import DGC  # noqa: E402
from hvdlite.adapter.compression.methods import DENSE, Encoded  # noqa: E402
from hvdlite.adapter.compression.on_numpy import ALGEBRA  # noqa: E402
from hvdlite.adapter.compression.topk import TopK  # noqa: E402
from hvdlite.core.process_sets import ProcessSet  # noqa: E402

COUNTS = (1 << 12, 1 << 16, 1 << 20)
PAIR = ProcessSet([0, 1])
LARGE, SMALL, BIAS = (1024, 1024), (64, 64), (1024,)


def numpys() -> Any:
    return ALGEBRA


def over(latency: float, per_number: float) -> Curve:
    """As a network gives it: a constant, and a time for each number."""
    return Curve(COUNTS, tuple(latency + per_number * count for count in COUNTS))


SLOW = over(1e-4, 3.2e-7)  # 100 Mbit/s: 0.34 s for 4 MiB
FAST = over(2e-5, 1e-9)
INT8_SLOW, INT8_FAST = over(2e-4, 0.8e-7), over(4e-5, 1.5e-9)
SIGN_SLOW = over(2e-4, 0.1e-7)


@pytest.mark.parametrize(
    ("count", "seconds"),
    [
        (1, 1.0), (10, 1.0),  # no smaller than the smallest one
        (15, 1.5), (20, 2.0),
        (30, 4.0), (40, 6.0),
        (80, 14.0),  # the last line goes on
    ],
)  # fmt: skip
def test_times_lie_on_lines_between_what_was_measured(count: int, seconds: float) -> None:
    assert Curve((10, 20, 40), (1.0, 2.0, 6.0)).at(count) == pytest.approx(seconds)


def test_a_curve_of_one_point_is_flat() -> None:
    assert [Curve((10,), (2.0,)).at(count) for count in (1, 10, 100)] == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("dense", "compressed", "count", "allowed", "chosen"),
    [
        (SLOW, [INT8_SLOW], 1 << 20, [0], 0),
        (SLOW, [INT8_SLOW], 1 << 12, [0], 0),
        (SLOW, [INT8_SLOW, SIGN_SLOW], 1 << 20, [0, 1], 1),
        (SLOW, [INT8_SLOW, SIGN_SLOW], 1 << 20, [0], 0),  # sign leaves this tensor out
        (SLOW, [INT8_SLOW], 1 << 20, [], None),
        (SLOW, [], 1 << 20, [], None),
        (FAST, [INT8_FAST], 1 << 20, [0], None),
        (FAST, [INT8_FAST], 1 << 26, [0], None),
        # latency weighs more in a small tensor
        (over(1e-4, 1e-8), [over(5e-4, 0.2e-8)], 1 << 20, [0], 0),
        (over(1e-4, 1e-8), [over(5e-4, 0.2e-8)], 1 << 12, [0], None),
        # sign is the fastest one for large tensors, and small ones go with them if that pays
        (SLOW, [over(1e-5, 0.8e-7), SIGN_SLOW], 1 << 12, [0, 1], 1),
        (SLOW, [INT8_SLOW, over(2e-3, 0.1e-7)], 1 << 12, [0, 1], 0),
        # a third is asked for
        (over(0, 1e-8), [over(0, 0.67e-8)], 1 << 20, [0], None),
        (over(0, 1e-8), [over(0, 0.66e-8)], 1 << 20, [0], 0),
        # the first of two that are equal
        (over(0, 1e-8), [over(0, 0.5e-8), over(0, 0.5e-8)], 1 << 20, [0, 1], 0),
        (over(0, 1e-8), [over(0, 0.5e-8), over(0, 0.5e-8)], 1 << 20, [1, 0], 1),
    ],
)  # fmt: skip
def test_the_fastest_candidate_is_chosen_where_it_pays(
    dense: Curve, compressed: Sequence[Curve], count: int, allowed: list[int], chosen: int | None
) -> None:
    assert choice(count, Measured(dense, tuple(compressed)), allowed) == chosen


def test_nothing_is_chosen_where_nothing_was_measured() -> None:
    measured = Measured(None, why="all ranks are on one host")
    assert choice(1 << 20, measured, [0]) is None
    assert choosing.rule(measured, ["int8"]) == "no compression"
    assert choosing.evidence(measured, ["int8"]) == "all ranks are on one host"


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (Measured(SLOW, (INT8_SLOW, SIGN_SLOW)), "sign"),
        (Measured(FAST, (INT8_FAST, INT8_FAST)), "no compression"),
        (Measured(over(1e-4, 1e-8), (over(5e-4, 0.2e-8), over(1, 1))),
         "dense, int8 from 131072 numbers on"),
        (Measured(over(1e-4, 1e-8), (over(0.5e-4, 0.5e-8), over(1e-3, 0.1e-8))),
         "int8, sign from 262144 numbers on"),
    ],
)  # fmt: skip
def test_the_rule_is_said_in_words(measured: Measured, words: str) -> None:
    assert choosing.rule(measured, ["int8", "sign"]) == words


@pytest.mark.parametrize(
    ("medians", "chosen"),
    [
        ({None: 1.0, 0: 0.5}, 0),
        ({None: 1.0, 0: 0.79}, 0),
        ({None: 1.0, 0: 0.81}, None),
        ({None: 1.0, 0: 2.0}, None),
        ({None: 1.0, 0: 0.5, 2: 0.4}, 2),
        ({None: 1.0, 0: 0.5, 2: 3.0}, 0),
        ({None: 1.0, 0: 0.81, 2: 0.82}, None),
    ],
)
def test_a_step_must_become_shorter(medians: dict[int | None, float], chosen: int | None) -> None:
    assert choosing.best(medians) == chosen


@pytest.mark.parametrize(
    ("dense", "compressed", "first", "allowed", "chosen"),
    [
        (1.0, [0.5, 0.1], 0, [0, 1], 0),
        (1.0, [0.5, 0.1], 1, [0, 1], 1),
        (1.0, [0.5, 0.1], 0, [1], 1),  # the preferred one leaves this tensor out
        (1.0, [0.9, 0.1], 0, [0, 1], 0),  # small tensors travel with large ones
        (1.0, [1.4, 0.1], 0, [0, 1], 0),
        (1.0, [1.6, 0.1], 0, [0, 1], None),  # dense is faster by a third
        (1.0, [0.9, 0.9], 0, [1], None),
    ],
)
def test_a_candidate_that_steps_prefer_takes_tensors_unless_dense_is_faster(
    dense: float, compressed: list[float], first: int, allowed: list[int], chosen: int | None
) -> None:
    measured = Measured(Curve((1,), (dense,)), tuple(Curve((1,), (each,)) for each in compressed))
    assert choice(1, measured, allowed, first) == chosen


def test_dense_and_compressing_steps_take_turns() -> None:
    trial, now, turns = Trial(100.0, [0, 2]), 100.0, []
    while not trial.is_over:
        turns.append(trial.candidate)
        # the first two are slow
        now += 50.0 if len(turns) <= 2 else {None: 20.0, 0: 5.0 + len(turns), 2: 3.0}[turns[-1]]
        trial.step(now)
    assert turns == [0, 2, None, 0, 2, None, 0, 2, None, 0, 2]
    assert trial.medians() == {None: 20.0, 0: 12.0, 2: 3.0}


class Job:
    """One rank that acts for all: `measured` is what the ranks would have measured, and each step
    takes as long as `seconds` says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, compression: Auto,
                 measured: Measured | None = None,
                 seconds: Sequence[float] = ()) -> None:  # fmt: skip
        monkeypatch.setattr(module, "agreed", lambda found, process_set: list(found))
        monkeypatch.setattr(announcing.engine, "rank", lambda: 0)
        monkeypatch.setattr(announcing.engine, "members_of", lambda process_set: [0, 1])
        self.asked = 0
        self.compression = compression
        times = accumulate(seconds, initial=0.0)
        compression._clock = lambda: next(times)

        def measure(candidates: Sequence[Any], process_set: ProcessSet) -> Measured:
            self.asked += 1
            assert measured is not None
            return measured

        compression._measure = measure

    def step(self) -> list[str]:
        """How the tensors of a step travel, by the codecs' names."""
        ways = [self._travel(f"w{i}", shape) for i, shape in enumerate((LARGE, SMALL, BIAS))]
        self.compression.stepped(PAIR)
        return ways

    def _travel(self, name: str, shape: Sequence[int]) -> str:
        flat = np.zeros(int(np.prod(shape)), np.float32)
        state = self.compression.state_of(name, flat, shape, 2)
        asked = next(self.compression.part(name, shape).rounds(ALGEBRA, flat, state, 2))
        self.compression.keep(name, {key: value + 1 for key, value in state.items()})
        return asked.codec if isinstance(asked, Encoded) else "dense"


DENSELY = ["dense", "dense", "dense"]
BOTH = ["int8", "int8", "dense"]


def test_a_slow_network_gets_int8_after_steps_by_turns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Measured(SLOW, (INT8_SLOW,))
    job = Job(monkeypatch, Auto(numpys), measured, [9.0, 8.0, 2.0, 8.0, 2.5, 8.5, 2.5])
    assert [job.step() for _ in range(8)] == [DENSELY, *[BOTH, DENSELY] * 3, BOTH]
    assert [job.step() for _ in range(3)] == [BOTH] * 3
    assert job.asked == 1
    said = "hvd.Compression.auto: int8(error_feedback=True); "
    said += "a step takes 8 s dense, 2.5 s with int8(error_feedback=True)\n"
    assert capsys.readouterr().err == said


def test_what_makes_no_step_shorter_is_dropped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(monkeypatch, Auto(numpys), Measured(SLOW, (INT8_SLOW,)), [1.0, *[1.0, 0.97] * 3])
    for _ in range(8):
        job.step()
    assert [job.step() for _ in range(3)] == [DENSELY] * 3
    assert "no compression; a step takes 1 s dense, 0.97 s with int8" in capsys.readouterr().err


def test_the_candidate_with_the_shortest_steps_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    compression = Auto(numpys, [codecs.int8(numpys), codecs.sign(numpys)])
    times = [9.0, 9.0, *[8.0, 2.0, 3.0] * 3]  # sign was faster alone, and is slower in a step
    job = Job(monkeypatch, compression, Measured(SLOW, (INT8_SLOW, SIGN_SLOW)), times)
    signs = ["sign", "sign", "dense"]
    assert [job.step() for _ in range(6)] == [DENSELY, BOTH, signs, DENSELY, BOTH, signs]
    for _ in range(6):
        job.step()
    assert job.step() == BOTH
    assert "3 s with sign(error_feedback=True)" in compression.said


@pytest.mark.parametrize(
    "measured", [Measured(FAST, (INT8_FAST,)), Measured(None, why="all ranks are on one host")]
)
def test_a_fast_network_gets_nothing_and_no_trial(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], measured: Measured
) -> None:
    job = Job(monkeypatch, Auto(numpys), measured)
    assert [job.step() for _ in range(3)] == [DENSELY] * 3
    assert capsys.readouterr().err.startswith("hvd.Compression.auto: no compression; ")
    assert job.asked == 1


def test_each_tensor_has_its_own_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = [codecs.int8(numpys), codecs.sign(numpys, skip="w1")]
    compression = Auto(numpys, candidates, skip="never")
    job = Job(monkeypatch, compression, Measured(SLOW, (INT8_SLOW, SIGN_SLOW)))
    compression.decide_now(PAIR)
    assert job.step() == ["sign", "int8", "dense"]
    assert compression.part("never", LARGE) is DENSE
    assert compression.said.startswith("hvd.Compression.auto: sign(error_feedback=True); ")


def test_a_compiled_step_is_decided_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compression = Auto(numpys)
    job = Job(monkeypatch, compression, Measured(SLOW, (INT8_SLOW,)))
    compression.decide_now(PAIR)
    compression.decide_now(PAIR)
    assert [job.step() for _ in range(3)] == [BOTH] * 3
    assert job.asked == 1


def test_another_generation_measures_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    compression = Auto(numpys)
    job = Job(monkeypatch, compression, Measured(SLOW, (INT8_SLOW,)))
    compression.decide_now(PAIR)
    assert job.step() == BOTH
    monkeypatch.setattr(module.basics, "incarnation", lambda: 7)
    assert job.step() == DENSELY and job.asked == 2


def test_the_memory_waits_while_tensors_travel_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    compression = Auto(numpys)
    job = Job(monkeypatch, compression, Measured(SLOW, (INT8_SLOW,)), [1.0] * 7)
    for _ in range(5):  # of which two compress
        job.step()
    (memory,) = compression.state_dict().values()
    assert memory["memory"]["w0"]["residual"].max() == 2.0 and set(memory["memory"]) == {"w0", "w1"}
    again = Auto(numpys)
    again.load_state_dict(compression.state_dict())
    job = Job(monkeypatch, again, Measured(SLOW, (INT8_SLOW,)))
    again.decide_now(PAIR)
    job.step()
    (memory,) = again.state_dict().values()
    assert memory["memory"]["w0"]["residual"].max() == 3.0


def test_a_copy_keeps_the_memory_and_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    compression = Auto(numpys)
    job = Job(monkeypatch, compression, Measured(SLOW, (INT8_SLOW,)))
    compression.decide_now(PAIR)
    job.step()
    compression._measure, compression._clock = module.measured, float  # not those of this test
    copy = pickle.loads(pickle.dumps(compression))
    assert copy.said == "" and copy.part("w0", LARGE) is DENSE
    assert copy.state_dict().keys() == compression.state_dict().keys()
    (memory,) = copy.state_dict().values()
    assert memory["memory"]["w0"]["residual"].max() == 1.0


def test_what_cannot_be_chosen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="carries the momentum of all tensors"):
        Auto(numpys, [DGC(numpys)])
    for wrong in ("int8", None, Auto(numpys)):
        with pytest.raises(TypeError, match="auto cannot choose"):
            Auto(numpys, [wrong])
    shared = TopK(numpys)
    first = Auto(numpys, [shared])
    with pytest.raises(ValueError, match="make one for each optimizer"):
        Auto(numpys, [shared])
    assert str(first) == "auto(topk(density=0.01))"
    monkeypatch.setattr(module.elastic, "enabled", lambda: True)
    with pytest.raises(ValueError, match="name one compression in an elastic job"):
        first.decide_now(PAIR)
