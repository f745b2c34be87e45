"""From the ranks' reports to a table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hvdlite.job.observe import operations_per_step, share_waiting
from hvdlite.launch.monitor import exposition, report_key, screen, view
from hvdlite.launch.monitor.board import (
    SILENT_SECONDS,
    WINDOW_SECONDS,
    Board,
    Row,
    milliseconds,
    rate,
    size,
)

# --- the rank's side


def _operation(
    number: int, name: str, submitted: float = 0, agreed: float = 0, done: float = 0
) -> dict[str, Any]:
    times = {"submitted": submitted, "agreed": agreed, "done": done}
    return {"number": number, "process_set": 0, "name": name, "kind": "allreduce", **times}


def _steps(names: list[str], count: int) -> list[dict[str, Any]]:
    return [_operation(number, names[number % len(names)]) for number in range(len(names) * count)]


def test_a_step_is_from_one_use_of_a_name_to_the_next() -> None:
    assert operations_per_step(_steps(["a", "b", "c"], 5)) == 3
    assert operations_per_step(_steps(["a"], 2)) == 1
    assert operations_per_step(_steps(["a", "b", "c"], 1)) is None
    assert operations_per_step([]) is None


def test_operations_without_a_name_of_their_own_do_not_disturb_the_steps() -> None:
    recent = [
        *_steps(["a", "b", "c", "d"], 6),
        _operation(24, "metric.1"),
        _operation(25, "metric.2"),
    ]
    assert operations_per_step(recent) == 4


def test_the_steps_of_now_count_and_not_those_of_the_past() -> None:
    now = [_operation(number + 100, name) for number, name in enumerate(["x", "y", "z"] * 4)]
    assert operations_per_step([*_steps(["a"], 30), *now]) == 3


def test_the_same_name_in_two_process_sets_is_two_operations() -> None:
    recent = _steps(["a", "a"], 4)
    for operation in recent:
        operation["process_set"] = operation["number"] % 2
    assert operations_per_step(recent) == 2


def test_waiting_counts_every_moment_once() -> None:
    recent = [
        _operation(0, "a", submitted=0, agreed=3, done=4),
        _operation(1, "b", submitted=1, agreed=3, done=4),  # within the other
        _operation(2, "c", submitted=8, agreed=9, done=10),
    ]
    assert share_waiting(recent) == pytest.approx(0.4)
    assert share_waiting([]) is None


# --- the launcher's side


def _report(clock: float, operations: int, announced: int | None = None, **more: Any) -> bytes:
    seen = {"per_step": more.pop("per_step", 10), "waiting": 0.25, "last": "allreduce conv1"}
    used = {"processors": more.pop("processors")} if "processors" in more else {}
    counters = {
        "operations": operations,
        "failures": 0,
        "bytes": operations * 1000,
        "requests_in_full": 5,
        "requests_by_slot": (operations if announced is None else announced) - 5,
        **more,
    }
    return json.dumps({"clock": clock, "counters": counters, "seen": seen, **used}).encode()


def _board(ranks: int = 2) -> Board:
    return Board({rank: f"node{rank}" for rank in range(ranks)})


def test_rates_are_those_of_the_window() -> None:
    board = _board(1)
    for second in range(31):  # fast at first, then 20 operations a second
        operations = 1000 * second if second < 10 else 9000 + 20 * (second - 9)
        board.take(0, _report(500.0 + second, operations), now=float(second))
    row = board.rows(30.0)[0]
    assert (
        row.operations == pytest.approx(20)
        and row.steps == pytest.approx(2)
        and row.bytes == pytest.approx(20_000)
    )
    assert (row.waiting, row.last, row.note, row.silent) == (0.25, "allreduce conv1", "", False)
    assert WINDOW_SECONDS < 20


def test_ranks_that_say_nothing_are_shown_as_such() -> None:
    board = _board(3)
    board.take(1, _report(7.0, 10), now=0.0)
    board.take(1, _report(7.0, 10), now=20.0)  # the same report still stands there
    board.take(2, b'{"left": true}', now=20.0)
    rows = board.rows(20.0)
    assert [row.note for row in rows] == ["not yet in init()", "silent for 20 s", "has left"]
    assert [row.silent for row in rows] == [False, True, False]
    assert all(row.operations is None for row in rows)
    assert SILENT_SECONDS < 20


def test_a_rank_that_has_joined_again_starts_anew() -> None:
    board = _board(1)
    board.take(0, _report(900.0, 5000), 0.0)
    board.take(0, b'{"left": true}', 1.0)
    board.take(0, _report(3.0, 0, announced=5), 2.0)
    board.take(0, _report(4.0, 30), 3.0)
    row = board.rows(3.0)[0]
    assert row.operations == 30 and row.note == ""


NO_REPORTS = {
    "no JSON": b"{not json",
    "no text": b"\xff\xfe",
    "too deep": b"[" * 100_000,
    "a list": b"[1]",
    "a number": b"5",
    "empty": b"{}",
    "a clock that is a text": b'{"clock": "x", "counters": {}, "seen": {}}',
    "a clock that is no number": b'{"clock": NaN, "counters": {}, "seen": {}}',
    "no counters": b'{"clock": 1.0, "seen": {}}',
    "counters in a list": b'{"clock": 1.0, "counters": [], "seen": {}}',
    "a counter that is a text": b'{"clock": 1.0, "counters": {"operations": "5"}, "seen": {}}',
    "a counter beyond all floats": (
        b'{"clock": 1.0, "counters": {"operations": 1%s}, "seen": {}}' % (b"0" * 400)
    ),
    "a flat table": b'{"clock": 1.0, "counters": {"carried_by": {"shm": 3}}, "seen": {}}',
    "seen in a list": b'{"clock": 1.0, "counters": {}, "seen": []}',
    "a step that is a text": b'{"clock": 1.0, "counters": {}, "seen": {"per_step": "x"}}',
    "a share that is a list": b'{"clock": 1.0, "counters": {}, "seen": {"waiting": []}}',
    "memory that is a text": (
        b'{"clock": 1.0, "counters": {}, "seen": {}, "process": {"memory": "much"}}'
    ),
    "processors in a list": b'{"clock": 1.0, "counters": {}, "seen": {}, "processors": [1]}',
    "processors without cores": (
        b'{"clock": 1.0, "counters": {}, "seen": {}, "processors": {"machine": "m", "cpus": "1", '
        b'"cores": 0, "busy": 1, "children": 1, "pressure": null}}'
    ),
    "details in a list": b'{"clock": 1.0, "counters": {}, "seen": {}, "details": [1]}',
}


@pytest.mark.parametrize("raw", NO_REPORTS.values(), ids=NO_REPORTS)
def test_what_is_no_report_makes_its_rank_silent(raw: bytes) -> None:
    board = _board(2)
    for now in (0.0, 1.0):
        board.take(0, raw, now)
        board.take(1, _report(now, int(10 * now)), now)
    rows = board.rows(1.0)
    assert [row.silent for row in rows] == [True, False]
    assert rows[0].note == "silent: its last report cannot be read"
    assert rows[1].operations == 10
    assert "rank 0 on node0: silent" in board.summary(1.0)
    exposition.page(board, 1.0)
    exposition.line(board, 1.0, 1.0, 0.0)
    board.take(0, _report(5.0, 10), 2.0)
    assert not board.rows(2.0)[0].silent


def test_a_tensors_name_does_not_write_to_the_terminal() -> None:
    board = _board(1)
    report = json.loads(_report(1.0, 10))
    report["seen"]["last"] = "allreduce \x1b[2Jx\u202e"
    board.take(0, json.dumps(report).encode(), 1.0)
    assert board.rows(1.0)[0].last == "allreduce \\x1b[2Jx\\u202e"


def _with_waits(
    first: dict[str, float], then: dict[str, float], operations: int = 100
) -> list[Row]:
    board = _board(len(first))
    for now, waits, done in ((0.0, first, 10), (10.0, then, 10 + operations)):
        for rank in range(len(first)):
            board.take(
                rank, _report(now, done, seconds_waited_for_rank=waits if rank == 0 else {}), now
            )
    return board.rows(10.0)


def test_the_rank_that_the_others_wait_for_is_marked() -> None:
    # 10 operations a step, 10 steps in 10 seconds; half of each step waits for rank 2.
    rows = _with_waits({"0": 5.0, "1": 0, "2": 0}, {"0": 5.1, "1": 0.1, "2": 5.0})
    assert [row.straggler for row in rows] == [False, False, True]
    assert rows[2].note == "others wait 500 ms for it" and rows[2].late == pytest.approx(0.5)


def test_nobody_is_marked_where_ranks_take_turns_or_little_is_lost() -> None:
    assert not any(row.straggler for row in _with_waits({"0": 0, "1": 0}, {"0": 9, "1": 11}))
    assert not any(row.straggler for row in _with_waits({"0": 0, "1": 0}, {"0": 0, "1": 0.5}))


def test_where_nothing_moves_the_one_that_asked_for_less_is_marked() -> None:
    board = _board(3)
    for now in (0.0, 2.0):
        for rank, announced in enumerate((51, 50, 51)):
            board.take(rank, _report(now, 50, announced), now)
    rows = board.rows(2.0)
    assert [row.note for row in rows] == [
        "waits for others",
        "all others wait for it",
        "waits for others",
    ]
    assert [row.straggler for row in rows] == [False, True, False]
    assert [row.steps for row in rows] == [0, 0, 0]


def test_all_of_it_in_one_line() -> None:
    board = _board(3)
    for now, operations in ((0.0, 100), (4.0, 900)):
        board.take(0, _report(now, operations), now)
        board.take(2, _report(now, operations), now)
    assert board.summary(4.0) == (
        "3 ranks, 20.0 steps/s, 200 operations/s, 200 kB/s, waiting 25% to 25% of the time, last "
        "allreduce conv1; rank 1 on node1: not yet in init()"
    )
    board = _board(1)
    for now, waits in ((5.0, 0.0), (6.0, 1.0)):
        used = {"machine": "m", "cpus": "1", "cores": 1, "children": 0.0}
        used |= {"busy": now, "pressure": waits}
        board.take(0, _report(now, 900, processors=used), now)
    assert board.summary(6.0).endswith(
        "; The rank gets 0 % of a core: other programs use 1.0 of the host's core"
    )
    many = Board({rank: "n" for rank in range(20)})
    assert many.summary(0.0).endswith("rank 7 on n: not yet in init(); and 12 more ranks")


def test_numbers_for_people() -> None:
    assert [rate(x) for x in (None, 0, 0.123, 12.34, 1234.5)] == ["-", "0", "0.12", "12.3", "1234"]
    assert [size(x) for x in (None, 0, 999, 1500, 2.5e8, 5e12)] == [
        "-",
        "0 B",
        "999 B",
        "1.5 kB",
        "250 MB",
        "5000 GB",
    ]
    assert [milliseconds(x) for x in (None, 0.0012, 1.5)] == ["-", "1.2 ms", "1500 ms"]


def _rows(count: int) -> list[Row]:
    return [
        Row(r, f"node{r}", 1.0, 10.0, 1e6, 0.5, 0.001, f"allreduce layer{r}.a.rather.long.name")
        for r in range(count)
    ]


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_the_table_fits_the_terminal(columns: int) -> None:
    rows = _rows(5)
    rows[3].note, rows[3].straggler = "others wait 30 ms for it", True
    lines = view.render(rows, columns, most=20, colours=False)
    assert len(lines) == 6 and max(map(len, lines)) <= columns
    assert lines[0].split()[:3] == ["rank", "host", "steps/s"]
    assert lines[4].split()[:2] == ["3", "node3"]


def test_of_too_many_ranks_those_with_a_note_are_shown() -> None:
    rows = _rows(100)
    rows[70].note, rows[70].silent = "silent for 9 s", True
    lines = view.render(rows, 200, most=3)
    assert [line.split()[0] for line in lines[1:3]] == ["0", "1"]
    assert "node70" in lines[3] and "\x1b[1;31m" in lines[3]
    assert lines[4:] == ["... and 97 more ranks"]


class FakeDisplay:
    seconds = 3.0

    def __init__(self) -> None:
        self.draws = 0

    def draw(self, now: float) -> None:
        self.draws += 1

    def tick(self) -> float | None:
        return None

    def end(self) -> None:
        self.draws = -1


class FakeStore:
    def __init__(self) -> None:
        self.clock = 0.0

    def peek(self, key: str) -> bytes | None:
        self.clock += 1
        return _report(self.clock, 100 * int(self.clock)) if key == report_key(0) else None


def test_reports_are_read_every_second_and_shown_when_it_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(view.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(view.time, "thread_time", lambda: now[0] / 1e6)
    display, board = FakeDisplay(), _board(1)
    shown = view.Monitor(board, display)
    shown.begin(FakeStore(), b"")  # type: ignore[arg-type]
    for second in range(3):
        assert shown.tick() == 1.0 and display.draws == 0, second
        now[0] += 1
    assert shown.tick() == 1.0 and display.draws == 1
    assert board.rows(now[0])[0].operations == 100
    now[0] += 0.25  # something happens in between
    assert shown.tick() == 0.75 and display.draws == 1
    shown.end()
    assert display.draws == -1


def test_a_monitor_that_is_expensive_looks_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter(range(100))
    monkeypatch.setattr(view.time, "monotonic", lambda: 100.0)
    shown = view.Monitor(_board(1), FakeDisplay())
    shown.begin(FakeStore(), b"")  # type: ignore[arg-type]
    monkeypatch.setattr(view.time, "monotonic", lambda: 200.0)
    monkeypatch.setattr(view.time, "thread_time", lambda: next(spent) * 0.1)
    assert shown.tick() == pytest.approx(50.0)  # 0.1 s of work are 0.2 % of that


def test_how_far_the_hosts_are() -> None:
    phases = {"a": "ready", "b": "connecting", "c": "ready", "d": "waiting"}
    assert screen.progress(phases, 100) == [
        "hvdliterun: ready (2 of 4): a, c",
        "hvdliterun: connecting (1 of 4): b",
        "hvdliterun: waiting (1 of 4): d",
    ]
    many = screen.progress({f"node{i}": "connecting" for i in range(100)}, 40)
    assert many == ["hvdliterun: connecting (100 of 100): no…"]
