"""--collapse: equal lines of several ranks come out once, and no rank's lines change their
order."""

from __future__ import annotations

import random

import pytest
from written import Kept

from hvdlite.launch.collapse import MOMENT_SECONDS, MOST_BYTES, Collapse, ranges
from hvdlite.launch.output import Sink, Stream


def _streams(count: int) -> tuple[Kept, list[Stream]]:
    writer = Kept()
    sink = Sink(writer)
    together = Collapse("stdout", range(count), sink.emit)
    return writer, [Stream(rank, "stdout", sink, merger=together) for rank in range(count)]


def test_what_all_ranks_say_comes_out_once_and_at_once() -> None:
    writer, streams = _streams(4)
    for stream in streams:
        assert writer.data == b""
        stream.feed(b"starting\n", 1.0)
    assert writer.data == b"[0-3]<stdout>:starting\n"


def test_what_some_ranks_say_waits_a_moment_for_others() -> None:
    writer, (zero, one, two, three) = _streams(4)
    zero.feed(b"hello\n", 1.0)
    two.feed(b"hello\n", 1.1)
    assert one.wait(1.1) == pytest.approx(MOMENT_SECONDS - 0.1)
    one.tick(1.1)
    assert writer.data == b""
    one.tick(1.0 + MOMENT_SECONDS)
    assert writer.data == b"[0,2]<stdout>:hello\n"
    three.feed(b"hello\n", 2.0)
    three.end()
    one.tick(2.0 + MOMENT_SECONDS)
    assert writer.data == b"[0,2]<stdout>:hello\n[3]<stdout>:hello\n"
    assert zero.wait(3.0) is None


def test_each_of_several_lines_is_gathered() -> None:
    writer, streams = _streams(3)
    for stream in streams:
        stream.feed(b"one\ntwo\none\n", 1.0)
    assert writer.data == b"[0-2]<stdout>:one\n[0-2]<stdout>:two\n[0-2]<stdout>:one\n"


def test_who_has_left_is_not_waited_for() -> None:
    writer, (zero, one, two) = _streams(3)
    two.end()
    zero.feed(b"x\n", 1.0)
    one.feed(b"x\n", 1.0)
    assert writer.data == b"[0-1]<stdout>:x\n"


def test_unfinished_lines_are_nobody_elses() -> None:
    writer, (zero, one) = _streams(2)
    zero.feed(b"before\nhalf a", 1.0)
    zero.tick(2.0)
    assert writer.data == b"[0]<stdout>:before\n[0]<stdout>:half a"
    zero.feed(b" line\n", 3.0)
    one.feed(b" line\n", 3.0)
    one.end()
    zero.end()
    assert writer.data.endswith(b"[0]<stdout>:half a line\n[1]<stdout>: line\n")


def test_a_flood_is_not_kept() -> None:
    writer, (zero, _) = _streams(2)
    for number in range(MOST_BYTES // 100):
        zero.feed(b"%0199d\n" % number, 1.0)
    assert len(writer.data) > MOST_BYTES / 2


def test_no_ranks_lines_change_their_order_and_none_is_lost() -> None:
    generator = random.Random(5)
    for _ in range(200):
        writer, streams = _streams(3)
        said: list[list[bytes]] = [[], [], []]
        now = 0.0
        for _ in range(40):
            rank = generator.randrange(3)
            line = generator.choice(b"abc").to_bytes(1, "little") + b"\n"
            said[rank].append(line)
            streams[rank].feed(line, now)
            now += generator.choice((0.0, 0.01, MOMENT_SECONDS))
            streams[generator.randrange(3)].tick(now)
        for stream in streams:
            stream.end()
        heard: list[list[bytes]] = [[], [], []]
        for line in writer.data.splitlines(keepends=True):
            numbers, _, text = line[1:].partition(b"]<stdout>:")
            for part in numbers.split(b","):
                first, _, last = part.partition(b"-")
                for rank in range(int(first), int(last or first) + 1):
                    heard[rank].append(text)
        assert heard == said


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([3], "3"), ([2, 0, 1], "0-2"), ([0, 2, 3, 9], "0,2-3,9"), ([1, 2], "1-2")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
