"""What `hvdlite report` keeps of a job, and how little that is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from report_jobs import BEGAN, Imagined

from hvdlite.observe.report import cli, history
from hvdlite.observe.report.details import (
    OTHERS,
    Details,
    Tally,
    Tensor,
    decode,
    group_of,
    overlap_of,
    total,
)
from hvdlite.observe.report.history import MOST_POINTS, MOST_SAMPLES, History


def told(job: Imagined) -> History:
    found = History()
    for record in job.records():
        found.add(record)
    return found


def test_the_sums_are_those_of_the_job() -> None:
    facts = told(Imagined(ranks=3, seconds=100, step=0.1, waits={1: 0.25})).facts()
    assert facts.began == BEGAN and facts.ended == BEGAN + 100
    assert facts.active == pytest.approx(100)
    assert facts.steps == pytest.approx(1000, rel=0.1)
    assert facts.totals[2].operations == 1000 * 17
    assert facts.totals[2].carried == {"shm stream": 1000 * 17 // 4, "net ring": 7}
    assert facts.waited_for[1] == pytest.approx(25)
    assert facts.details is not None and facts.details.overlap.hidden == pytest.approx(24)


def test_counters_that_begin_anew_go_on_counting() -> None:
    """As in an elastic job, whose ranks call init() again."""
    found = History()
    records = list(Imagined(ranks=2, seconds=50).records())
    for shift in (0, 1000):
        for record in records:
            found.add(record | {"time": record["time"] + shift})
    facts = found.facts()
    assert facts.totals[0].operations == 2 * records[-1]["ranks"][0]["counters"]["operations"]
    assert facts.details is not None
    assert facts.details.operations == 2 * records[-1]["details"]["operations"]
    first = records[-1]["details"]["tensors"][0]
    assert facts.details.tensors[0].operations == 2 * first["operations"]


def test_a_long_job_of_many_ranks_is_thinned_out() -> None:
    found = History()
    template = list(Imagined(ranks=64, seconds=20).records())
    for number in range(2_000):
        found.add(template[-1] | {"time": BEGAN + number})
    samples = found.facts().samples
    assert len(samples) <= MOST_SAMPLES
    assert sum(len(sample.points) for sample in samples) <= MOST_POINTS
    assert len(samples) * 4 > MOST_SAMPLES, "not more than needed is lost"
    assert sum(sample.seconds for sample in samples) == pytest.approx(1_999)
    steps = {point.step for sample in samples for point in sample.points.values()}
    expected = 1 / template[-1]["ranks"][0]["steps_per_second"]
    assert len(steps) == 1 and steps.pop() == pytest.approx(expected)


def test_a_sample_of_two_is_their_mean() -> None:
    found = history.Samples()
    for time in range(MOST_SAMPLES + 1):
        found.add(history.Sample(float(time), 1.0, {0: history.Point(step=float(time % 2))}))
    assert {sample.points[0].step for sample in found.list[:-1]} == {0.5}
    assert found.list[0].seconds == 2.0


def test_a_change_of_the_ranks_and_a_silent_rank_are_events() -> None:
    found = History()
    records = list(Imagined(ranks=3, seconds=60, fewer_from=0.5).records())
    records[1]["ranks"][2]["note"] = "silent for 6 s"
    for record in records:
        found.add(record)
    facts = found.facts()
    assert [event.text for event in facts.events] == [
        "Rank 2 on localhost no longer reports",
        "The ranks have changed: 3 → 2 (generation 2)",
    ]
    assert facts.world_changes == 1


def test_records_may_come_more_often_than_reports_and_long_pauses_do_not_count() -> None:
    records = list(Imagined(ranks=2, seconds=40, every=10).records())
    found = History()
    for record in records:
        for tenth in range(10):
            found.add(record | {"time": record["time"] + tenth})
    assert found.facts().active == pytest.approx(31)
    found.add(records[-1] | {"time": BEGAN + 500})
    grown = list(Imagined(ranks=2, seconds=600, every=501).records())[-1]
    found.add(grown)
    assert found.facts().active == pytest.approx(32)


def test_a_file_of_two_lines_is_a_job_of_their_time() -> None:
    records = list(Imagined(ranks=2, seconds=20, every=10).records())[1:]
    found = cli.read_metrics(map(json.dumps, records)).history.facts()
    assert found.active == pytest.approx(20)


def test_a_job_without_ranks_for_a_moment_has_not_changed() -> None:
    found = History()
    for record in Imagined(ranks=2, seconds=30, hosts=("a, member 1", "a, member 2")).records():
        found.add(record)
        found.add(record | {"ranks": []})
    facts = found.facts()
    assert facts.events == [] and len(facts.hosts) == 2
    assert not facts.several_hosts and facts.host(1) == "a"


def test_waiting_is_how_fast_a_ranks_counter_grows() -> None:
    job = Imagined(ranks=3, seconds=60, every=10, waits={1: 0.3})
    found = History()
    for record in job.records():
        for later in (0, 2, 4):  # records come more often than reports
            found.add(record | {"time": record["time"] + later})
    last = found.facts().samples[-1]
    assert [last.points[rank].waiting for rank in range(3)] == pytest.approx([0.32, 0.02, 0.32])
    found.add(record | {"time": BEGAN + 200})
    assert found.facts().samples[-1].points[0].waiting is None, "nothing moves"


def test_events_beyond_some_are_counted() -> None:
    found = History()
    for number in range(1000):
        found.happened(float(number), f"event {number}")
    events = found.facts().events
    assert len(events) == 201 and events[-1].text == "800 more events"


def test_the_last_job_of_a_file_is_shown() -> None:
    first = [json.dumps(record) for record in Imagined(ranks=2, seconds=50).records()]
    second = [
        json.dumps(record | {"began": BEGAN + 999, "time": record["time"] + 999})
        for record in Imagined(ranks=5, seconds=30).records()
    ]
    read = cli.read_metrics([*first, first[0][:40], "", *second])
    assert (read.jobs, read.broken) == (2, 1)
    assert len(read.history.facts().hosts) == 5
    assert read.notes("m.jsonl") == [
        "m.jsonl holds 2 jobs; this is the last one.",
        "Lines of m.jsonl that cannot be read: 1.",
    ]
    with pytest.raises(ValueError, match="no line in it is one of --metrics-file"):
        cli.read_metrics(["{}", "no", "[1]"])


# --- tensors


def operation(
    number: int, name: str, submitted: float, agreed: float, done: float, **more: Any
) -> dict[str, Any]:
    return {
        "number": number, "process_set": 0, "name": name, "failed": False, "bytes": 100,
        "dtype": "float32", "communicator": "shm", "submitted": submitted, "agreed": agreed,
        "done": done, **more,
    }  # fmt: skip


def test_a_batch_is_shared_by_its_bytes() -> None:
    tally = Tally()
    recent = [
        operation(0, "a", 0.0, 1.0, 3.0, bytes=300),
        operation(1, "b", 0.5, 1.0, 3.0, bytes=100),
        operation(2, "c", 2.0, 4.0, 5.0, communicator="net"),
        operation(3, "d", 2.0, 4.0, 9.0, failed=True),
    ]
    tally.take(recent)
    tally.take(recent)  # the same list again brings nothing new
    found = tally.details()
    assert found.tensors == [
        Tensor("a", 1, 300, 1.5, 1.0), Tensor("c", 1, 100, 1.0, 2.0), Tensor("b", 1, 100, 0.5, 0.5)
    ]  # fmt: skip
    assert (found.operations, found.bytes, found.seconds) == (3, 500, 3.0)
    assert found.ways == {"shm": 400, "net": 100} and found.dtypes == {"float32": 500}
    assert found.fusion == {"2 to 4": 1, "1": 1}
    assert decode(found.encode()) == found


def test_any_number_of_names_needs_bounded_memory() -> None:
    tally = Tally()
    tally.take([operation(i, f"name.{i}", i, i, i + 1.0) for i in range(10_000)])
    tally.take([operation(10_000 + i, f"x.noname.{i}", 1e5, 1e5, 1e5 + 1) for i in range(3)])
    found = tally.details()
    assert found.tensors[0].name == OTHERS and len(found.tensors) == 30
    assert len(json.dumps(found.encode())) < 5000


def test_unnamed_operations_are_one_line() -> None:
    tally = Tally()
    tally.take([operation(i, f"allreduce.noname.{i}", i, i, i + 1.0) for i in range(5)])
    assert [(each.name, each.operations) for each in tally.details().tensors] == [
        ("allreduce.noname", 5)
    ]


@pytest.mark.parametrize(
    ("tensors", "group"),
    [
        (1, "1"),
        (2, "2 to 4"),
        (4, "2 to 4"),
        (5, "5 to 16"),
        (64, "17 to 64"),
        (65, "more than 64"),
    ],
)
def test_groups_of_batches(tensors: int, group: str) -> None:
    assert group_of(tensors) == group


def _steps(*offsets: tuple[str, float, float, float]) -> list[dict[str, Any]]:
    return [
        operation(step * len(offsets) + i, name, 10 * step + s, 10 * step + a, 10 * step + d)
        for step in range(4)
        for i, (name, s, a, d) in enumerate(offsets)
    ]


def test_gradients_that_travel_while_others_are_to_come_are_hidden() -> None:
    found = overlap_of(_steps(("a", 1, 1, 4), ("b", 2, 4, 6), ("c", 5, 6, 9)))
    # The first and the last step may be parts. Of the others, 4 of 8 s are before the last request.
    assert (found.steps, found.moving, found.hidden) == (20, 16, 8)


def test_a_metric_after_the_step_is_no_gradient() -> None:
    found = overlap_of(_steps(("a", 1, 1, 4), ("b", 2, 4, 6), ("loss", 7, 7, 8)))
    assert (found.moving, found.hidden) == (12, 2)


def test_blocking_operations_say_nothing_about_overlap() -> None:
    found = overlap_of(_steps(("a", 1, 1, 2), ("b", 3, 3, 4)))
    assert (found.steps, found.moving) == (0, 0)


def test_two_parts_of_a_job_are_added() -> None:
    a = Details(1, 10, 2.0, [Tensor("x", 1, 10, 2.0, 0)], {"shm": 10}, versions={"python": "3"})
    b = Details(2, 20, 1.0, [Tensor("x", 2, 20, 1.0, 1)], {"net": 20}, knobs={"K": "1"})
    both = total(a, b)
    assert both.tensors == [Tensor("x", 3, 30, 3.0, 1)]
    assert both.ways == {"shm": 10, "net": 20} and both.operations == 3
    assert both.versions == {"python": "3"} and both.knobs == {"K": "1"}


def test_details_of_another_release_are_refused() -> None:
    with pytest.raises(ValueError, match="no details of a job"):
        decode({"something": 1})
