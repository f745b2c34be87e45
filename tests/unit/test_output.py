"""Bytes come out as they went in, line by line, whatever ranks print and however slowly somebody
reads."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from pathlib import Path

import pytest
from machine import within
from waiting import wait_until

from hvdlite.launch import output
from hvdlite.launch.output import LineCutter, Sink, Stream, Writer


class FakeWriter(Writer):
    """Keeps what is put; `taken` bytes of it count as written."""

    def __init__(self) -> None:
        self.data = b""
        self.waiting = 0
        self.silence = 0.0

    @property
    def backlog(self) -> int:
        return self.waiting

    def stuck(self, now: float) -> float:
        return self.silence

    def put(self, data: bytes) -> None:
        self.data += data

    def wait_flushed(self, seconds: float) -> bool:
        return True


def _streams(count: int = 2, timestamps: bool = False) -> tuple[FakeWriter, list[Stream]]:
    writer = FakeWriter()
    sink = Sink(writer, timestamps)
    return writer, [Stream(rank, "stdout", sink) for rank in range(count)]


# --- cutting


@pytest.mark.parametrize(
    ("data", "lines", "pending"),
    [
        (b"a\nb\n", [b"a\n", b"b\n"], b""),
        (b"a\nb", [b"a\n"], b"b"),
        (b"a\r\nb\r\n", [b"a\r\n", b"b\r\n"], b""),
        (b" 1%\r 2%\r 3%\n", [b" 1%\r", b" 2%\r", b" 3%\n"], b""),
        (b"a\r", [], b"a\r"),
        (b"\n\n", [b"\n", b"\n"], b""),
        (b"\r\r\n", [b"\r", b"\r\n"], b""),
        (b"\xff\xfe\x00\n", [b"\xff\xfe\x00\n"], b""),
        (b"", [], b""),
    ],
)
def test_lines_end_with_any_line_end(data: bytes, lines: list[bytes], pending: bytes) -> None:
    cutter = LineCutter()
    assert cutter.feed(data) == lines
    assert cutter.pending == pending


def test_however_the_bytes_arrive_the_lines_are_the_same() -> None:
    generator = random.Random(7)
    for _ in range(300):
        data = bytes(generator.choice(b"ab\n\r\xc3\xa9") for _ in range(generator.randrange(40)))
        whole, pieces = LineCutter(), LineCutter()
        expected = [*whole.feed(data), whole.flush()]
        found: list[bytes] = []
        rest = data
        while rest:
            cut = generator.randrange(1, 5)
            found += pieces.feed(rest[:cut])
            rest = rest[cut:]
        assert [*found, pieces.flush()] == expected
        assert b"".join(expected) == data


def test_an_endless_line_is_passed_on_in_pieces() -> None:
    cutter = LineCutter()
    pieces = cutter.feed(b"x" * (output.LINE_BYTES + 1))
    assert [len(piece) for piece in pieces] == [output.LINE_BYTES + 1]
    assert cutter.pending == b""


# --- prefixing


def test_each_line_says_whose_it_is() -> None:
    writer, (zero, one) = _streams()
    zero.feed(b"hello\nwor", 0)
    one.feed(b"hi\n", 0)
    zero.feed(b"ld\n", 0)
    assert writer.data == b"[0]<stdout>:hello\n[1]<stdout>:hi\n[0]<stdout>:world\n"


def test_the_last_line_needs_no_end() -> None:
    writer, (zero, one) = _streams()
    zero.feed(b"no end", 0)
    zero.end()
    assert writer.data == b"[0]<stdout>:no end"
    one.feed(b"next\n", 0)
    assert writer.data == b"[0]<stdout>:no end\n[1]<stdout>:next\n"


def test_an_unfinished_line_shows_after_a_moment_and_goes_on_where_it_was() -> None:
    writer, (zero, _) = _streams()
    zero.feed(b"loading", 10.0)
    zero.tick(10.0 + output.IDLE_SECONDS / 2)
    assert writer.data == b"" and zero.wait(10.0 + output.IDLE_SECONDS / 2) == output.IDLE_SECONDS
    zero.tick(10.0 + output.IDLE_SECONDS * 1.5)
    assert (
        writer.data == b"[0]<stdout>:loading"
        and zero.wait(10.0 + output.IDLE_SECONDS * 1.5) is None
    )
    zero.feed(b" done\n", 11.0)
    assert writer.data == b"[0]<stdout>:loading done\n"


def test_whoever_speaks_in_between_starts_a_new_line() -> None:
    writer, (zero, one) = _streams()
    zero.feed(b"loading", 10.0)
    zero.tick(11.0)
    one.feed(b"hi\n", 11.0)
    zero.feed(b" done\n", 11.0)
    assert writer.data == b"[0]<stdout>:loading\n[1]<stdout>:hi\n[0]<stdout>: done\n"


def test_on_a_terminal_each_state_of_a_progress_bar_has_one_prefix() -> None:
    writer, (zero, _) = _streams()
    for percent in (1, 2, 3):
        zero.feed(b"\r%d%%" % percent, 0)
    zero.end()
    assert writer.data == b"[0]<stdout>:1%\r[0]<stdout>:2%\r[0]<stdout>:3%"


def test_on_a_terminal_a_state_that_was_shown_early_is_drawn_over() -> None:
    writer, (zero, _) = _streams()
    zero.feed(b"\r1%", 0)
    zero.tick(1)
    zero.feed(b"\r2%\n", 1)
    assert writer.data == b"[0]<stdout>:1%\r[0]<stdout>:2%\n"


# --- progress bars in a file


def _in_a_file() -> tuple[FakeWriter, Stream]:
    writer = FakeWriter()
    return writer, Stream(0, "stderr", Sink(writer, obeys_returns=False))


def _lines(writer: FakeWriter) -> list[bytes]:
    return [line.removeprefix(b"[0]<stderr>:") for line in writer.data.splitlines(keepends=True)]


def test_in_a_file_a_progress_bar_is_a_line_now_and_then_and_its_last_state() -> None:
    writer, stream = _in_a_file()
    for tenth in range(1001):  # as tqdm writes them, ten a second
        stream.feed(b"\r%d%%" % (tenth // 10), tenth / 10)
        stream.tick(tenth / 10)
    stream.feed(b"\n", 100.1)
    stream.feed(b"done\n", 100.1)
    assert _lines(writer) == [
        *(b"%d%%\n" % percent for percent in range(0, 100, 10)),
        b"100%\n",
        b"done\n",
    ]


def test_in_a_file_a_progress_bar_that_rests_shows_where_it_is() -> None:
    writer, stream = _in_a_file()
    stream.feed(b"\r1%", 0)
    assert stream.wait(0) == output.IDLE_SECONDS
    stream.tick(output.IDLE_SECONDS)
    assert _lines(writer) == [b"1%\n"]
    assert stream.wait(output.IDLE_SECONDS) is None  # nobody wakes up for it
    stream.feed(b"\r2%\r3%", 1)
    stream.tick(1 + output.IDLE_SECONDS)
    assert stream.wait(2) == pytest.approx(output.BAR_SECONDS + output.IDLE_SECONDS - 2)
    stream.tick(output.BAR_SECONDS + output.IDLE_SECONDS)
    assert _lines(writer) == [b"1%\n", b"3%\n"]
    stream.end()
    assert _lines(writer) == [b"1%\n", b"3%\n"]


def test_in_a_file_what_is_printed_after_a_state_takes_its_place() -> None:
    writer, stream = _in_a_file()
    stream.feed(b"a\r\nb 1%\rb 2%\rb 3%\rbad\n", 0)
    stream.feed(b"c 1%\rc 2%\r", 1)
    stream.end()
    assert _lines(writer) == [b"a\r\n", b"bad\n", b"c 1%\n", b"c 2%\n"]


def test_the_last_words_are_those_of_a_bar_as_well() -> None:
    _, stream = _in_a_file()
    stream.feed(b"\r1%\r2%\rValueError: bad\n", 0)
    assert stream.last_words.found() == (b"ValueError: bad", True)


def test_bytes_that_are_no_text_pass_unchanged() -> None:
    writer, (zero, _) = _streams()
    data = bytes(b for b in range(256) if b not in b"\r\n") + b"\n"
    zero.feed(data, 0)
    assert writer.data == b"[0]<stdout>:" + data


def test_timestamps_come_before_the_bracket() -> None:
    writer, (zero, _) = _streams(timestamps=True)
    zero.feed(b"hi\n", 0)
    assert re.fullmatch(rb"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\[0\]<stdout>:hi\n", writer.data)


def test_taking_the_prefixes_away_gives_back_each_rank_its_bytes() -> None:
    generator = random.Random(3)
    writer, streams = _streams(3)
    sent = [b"", b"", b""]
    for _ in range(500):
        rank = generator.randrange(3)
        data = b"%d.%d" % (rank, len(sent[rank])) + (b"\n" if generator.random() < 0.7 else b"")
        sent[rank] += data
        streams[rank].feed(data, 0)
    for rank, stream in enumerate(streams):
        stream.feed(b"\n", 0)
        sent[rank] += b"\n"
    lines = writer.data.splitlines(keepends=True)
    for rank in range(3):
        prefix = b"[%d]<stdout>:" % rank
        assert b"".join(x.removeprefix(prefix) for x in lines if x.startswith(prefix)) == sent[rank]


# --- copies


def test_copies_are_verbatim_and_padded(tmp_path: Path) -> None:
    writer = FakeWriter()
    copy = output.open_copy(str(tmp_path / "logs"), 3, 12, "stdout")
    stream = Stream(3, "stdout", Sink(writer), copy)
    stream.feed(b"a\r\nb\xff", 0)
    stream.end()
    assert (tmp_path / "logs" / "rank.03" / "stdout").read_bytes() == b"a\r\nb\xff"
    os.close(output.open_copy(str(tmp_path), 0, 1, "stderr"))
    assert (tmp_path / "rank.0" / "stderr").exists()


def test_a_full_disk_ends_the_copy_and_not_the_job() -> None:
    writer = FakeWriter()
    stream = Stream(0, "stdout", Sink(writer), os.open("/dev/full", os.O_WRONLY))
    stream.feed(b"a\n", 0)
    stream.feed(b"b\n", 0)
    text = b"hvdliterun: the copy of rank 0's stdout ends here: No space left on device.\n"
    assert writer.data == text + b"[0]<stdout>:a\n[0]<stdout>:b\n"


# --- slow readers


def test_ranks_wait_for_a_slow_reader_but_not_for_one_that_has_stopped() -> None:
    writer = FakeWriter()
    sink = Sink(writer)
    assert sink.accepts(0)
    writer.waiting = output.BACKLOG_BYTES
    assert not sink.accepts(0)
    writer.silence = output.PATIENCE_SECONDS + 1
    assert sink.accepts(0)
    sink.emit(b"[0]", [b"x\n", b"y\n"])
    assert writer.data == b""
    writer.waiting = 0
    assert sink.accepts(0)
    sink.emit(b"[0]", [b"z\n"])
    assert (
        writer.data
        == b"hvdliterun: 2 lines are missing here: the reader took none for 10 s.\n[0]z\n"
    )


def test_a_writer_never_makes_the_one_who_puts_wait() -> None:
    reader, descriptor = os.pipe()
    writer = Writer(descriptor)
    block = b"x" * (1 << 20)
    putting = threading.Thread(target=lambda: [writer.put(block) for _ in range(4)], daemon=True)
    putting.start()
    putting.join(within(30))
    assert not putting.is_alive()  # nobody has read anything
    assert writer.backlog > 3 << 20
    assert not writer.wait_flushed(0.05)
    # Its thread may be late in filling the pipe, which counts as progress.
    wait_until(lambda: writer.stuck(time.monotonic()) >= 0.04)
    got = 0
    while got < 4 << 20:
        got += len(os.read(reader, 1 << 20))
    assert writer.wait_flushed(within(30))
    assert writer.stuck(time.monotonic()) == 0
    os.close(reader)


def test_a_reader_that_has_gone_is_no_reason_to_fail() -> None:
    reader, descriptor = os.pipe()
    os.close(reader)
    writer = Writer(descriptor)
    writer.put(b"into the void\n")
    assert writer.wait_flushed(within(30))
    writer.put(b"more\n")
    assert writer.wait_flushed(within(30))
    os.close(descriptor)


def test_a_descriptor_that_does_not_block_is_waited_for() -> None:
    reader, descriptor = os.pipe()
    os.set_blocking(descriptor, False)
    writer = Writer(descriptor)
    writer.put(b"x" * (1 << 20))
    got = 0
    while got < 1 << 20:
        got += len(os.read(reader, 1 << 16))
    assert writer.wait_flushed(within(30))
    os.close(reader)


def test_a_writer_keeps_why_it_cannot_write() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    writer = Writer(full)
    assert writer.failure is None
    writer.put(b"text")
    assert writer.wait_flushed(within(30))
    assert isinstance(writer.failure, OSError)
    os.close(full)


@pytest.mark.parametrize("stream", [None, object()])
def test_a_stream_that_cannot_be_written_to_ends_the_output_and_nothing_waits(
    stream: object,
) -> None:
    """`sys.stdout` is None in a program without a console, and anything at all in a notebook."""
    writer = output.TextWriter(stream)  # type: ignore[arg-type]
    writer.put(b"text")
    assert writer.wait_flushed(within(30))
