"""What people see of an elastic job: prefixes, collapsed lines, files, and the monitor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from elastic_job import Job, running
from written import Kept

from hvdlite.launch.console import Console
from hvdlite.launch.elastic.context import Streams, status_line
from hvdlite.launch.monitor.board import Board


def _streams(directory: Path | None = None, collapse: bool = False) -> tuple[Kept, Streams]:
    out = Kept()
    console = Console(out, Kept(), timestamps=False)
    return out, Streams(console, str(directory) if directory else None, collapse)


def test_a_prefix_is_the_rank_of_the_moment() -> None:
    out, streams = _streams()
    five = streams.open(5, 1)["stdout"]
    five.feed(b"early\n", 0.0)
    streams.renumber({5: 0})
    five.feed(b"late\n", 1.0)
    assert out.data == b"[1]<stdout>:early\n[0]<stdout>:late\n"


def test_files_are_by_member(tmp_path: Path) -> None:
    _, streams = _streams(tmp_path)
    opened = streams.open(5, 1)
    streams.renumber({5: 0})
    for stream in opened.values():
        stream.feed(b"said\n", 0.0)
        stream.end()
    streams.close(5)
    assert (tmp_path / "rank.5" / "stdout").read_text() == "said\n"
    assert [each.name for each in tmp_path.iterdir()] == ["rank.5"]


def test_a_newcomer_starts_without_a_copy_where_none_can_be_written(tmp_path: Path) -> None:
    err = Kept()
    streams = Streams(Console(Kept(), err, timestamps=False), str(tmp_path), collapse=False)
    (tmp_path / "rank.5").touch()  # no folder can have this name
    with pytest.raises(FileExistsError):
        streams.open(5, 1)
    streams.renumber({})
    for stream in streams.open(5, 1).values():
        stream.feed(b"said\n", 0.0)
        stream.end()
    assert [line.partition(": cannot write to ")[0] for line in err.data.decode().splitlines()] == [
        "hvdliterun: there is no copy of member 5's stdout",
        "hvdliterun: there is no copy of member 5's stderr",
        "[1]<stderr>:said",
    ]


def test_lines_wait_for_the_ranks_of_the_present_generation_only() -> None:
    out, streams = _streams(collapse=True)
    opened = {member: streams.open(member, member - 1)["stdout"] for member in (1, 2, 3)}
    opened[1].feed(b"begins\n", 0.0)
    opened[2].feed(b"begins\n", 0.0)
    assert out.data == b""
    opened[3].feed(b"begins\n", 0.0)
    assert out.data == b"[0-2]<stdout>:begins\n"
    streams.renumber({1: 0, 2: 1, 3: 2})

    out.data = b""
    opened[1].end()  # member 1 is dead, and a newcomer imports
    streams.renumber({2: 0, 3: 1})
    newcomer = streams.open(4, 2)["stdout"]
    for member in (2, 3):
        opened[member].feed(b"goes on\n", 1.0)
    assert out.data == b"[0-1]<stdout>:goes on\n"
    newcomer.feed(b"imports\n", 1.0)
    assert out.data == b"[0-1]<stdout>:goes on\n"  # it waits for a moment
    newcomer.tick(9.0)
    assert out.data.endswith(b"[2]<stdout>:imports\n")


def test_lines_that_wait_are_those_of_the_ranks_that_printed_them() -> None:
    out, streams = _streams(collapse=True)
    opened = {member: streams.open(member, member - 1)["stdout"] for member in (1, 2)}
    streams.renumber({1: 0, 2: 1})
    opened[2].feed(b"before\n", 0.0)
    streams.renumber({2: 0})
    opened[2].feed(b"after\n", 0.0)
    assert out.data == b"[1]<stdout>:before\n[0]<stdout>:after\n"


def test_the_monitor_is_told_of_generation_members_and_empty_slots() -> None:
    job = Job("a:2,b:1")
    assert status_line(job.machine, 0.0).line.startswith("before the first generation; starting: ")
    job = running("a:2,b:1")
    shown = status_line(job.machine, job.now)
    assert shown.line == "generation 1"
    assert shown.hosts == {0: "a, member 1", 1: "a, member 2", 2: "b, member 3"}
    job.die(2)
    shown = status_line(job.machine, job.now)
    assert "empty after a failure: a:1 for 1 s" in shown.line
    assert shown.hosts == {0: "a, member 1", 2: "b, member 3"}


def _report(clock: float, operations: int) -> bytes:
    counters = {"operations": operations, "bytes": 0}
    return json.dumps({"clock": clock, "counters": counters, "seen": {}}).encode()


def test_a_board_forgets_the_reports_of_ranks_that_were() -> None:
    board = Board({})
    assert board.summary(0.0) == "0 ranks"
    board.become({0: "a, member 1", 1: "a, member 2"}, "generation 1")
    for clock in (0.0, 1.0):
        board.take(0, _report(clock, int(10 * clock)), clock)
        board.take(1, _report(clock, int(10 * clock)), clock)
    assert board.summary(1.0).startswith("generation 1; 2 ranks, 10.0 operations/s")
    board.become({0: "a, member 2"}, "generation 2")
    assert board.summary(1.0) == "generation 2; 1 rank"
