"""What ranks have printed on the launcher's way: it waits for a slow reader, and is heard before
its rank is judged."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Iterator

import pytest

from hvdlite.launch import watch as watching
from hvdlite.launch.output import BACKLOG_BYTES, Sink, Stream, Writer
from hvdlite.launch.spawn.events import AllGone, Event, Output, RankEnded, RankPipes
from hvdlite.launch.verdict import Verdict
from hvdlite.launch.watch import watch


class Reader(Writer):
    """Is `full` for so many questions: all that was put waits, and more than is allowed to."""

    def __init__(self) -> None:
        self.data = b""
        self.full = 0

    @property
    def backlog(self) -> int:
        self.full = max(0, self.full - 1)
        return BACKLOG_BYTES if self.full else 0

    def stuck(self, now: float) -> float:
        return 0.0

    def put(self, data: bytes) -> None:
        self.data += data
        assert len(self.data) < 100 << 20, "it is read without end"


Turn = Callable[["Host", Reader], list[Event]]
Watched = Callable[..., tuple[Verdict, Reader]]


class Host:
    """A rank whose pipes are here, or `elsewhere`. In each turn of `watch` one of `turns`
    happens."""

    def __init__(self, elsewhere: bool, turns: list[Callable[[Host], list[Event]]]) -> None:
        self._turns = turns
        self._reader, writer = os.pipe()
        os.write(writer, bytes(len(turns)))
        out, self._out = os.pipe2(os.O_NONBLOCK)
        err, self._err = os.pipe2(os.O_NONBLOCK)
        self.pipes = {} if elsewhere else {0: RankPipes(out, err)}
        self._descriptors = [self._reader, writer, out, self._out, err, self._err]

    def fileno(self) -> int:
        return self._reader

    def events(self) -> list[Event]:
        os.read(self._reader, 1)
        return self._turns.pop(0)(self)

    def terminate(self) -> None:
        pass

    def ending_seconds(self, politely: bool) -> float:
        return 600.0

    def wake(self) -> None:
        pass

    def print(self, data: bytes, stream: str = "stdout") -> list[Event]:
        if not self.pipes:
            return [Output(0, stream, data)]
        os.write(self._out if stream == "stdout" else self._err, data)
        return []

    def close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


@pytest.fixture
def watched() -> Iterator[Watched]:
    hosts: list[Host] = []

    def start(elsewhere: bool, *turns: Turn) -> tuple[Verdict, Reader]:
        reader = Reader()
        sink = Sink(reader)
        streams = {(0, name): Stream(0, name, sink) for name in ("stdout", "stderr")}
        verdict = Verdict({0: "here"})
        hosts.append(
            Host(elsewhere, [lambda host, turn=turn: turn(host, reader) for turn in turns])
        )
        watch({"here": hosts[0]}, streams, verdict)  # type: ignore[dict-item]
        return verdict, reader

    yield start
    for host in hosts:
        host.close()


def test_a_rank_waits_while_the_reader_is_full(watched: Watched) -> None:
    def fill(host: Host, reader: Reader) -> list[Event]:
        reader.full = 1000
        return host.print(b"one\n")

    def go_on(host: Host, reader: Reader) -> list[Event]:
        assert reader.data == b"", "something was read for a reader that takes nothing"
        reader.full = 0
        return []

    _, reader = watched(False, fill, go_on, lambda host, reader: [AllGone()])
    assert reader.data == b"[0]<stdout>:one\n"


def test_a_host_elsewhere_waits_while_the_reader_is_full(watched: Watched) -> None:
    def fill(host: Host, reader: Reader) -> list[Event]:
        reader.full = 6
        return host.print(b"one\n")

    def end(host: Host, reader: Reader) -> list[Event]:
        assert not reader.full, "the host was asked for more while the reader takes nothing"
        return [*host.print(b"two\n"), AllGone()]

    _, reader = watched(True, fill, end)
    assert reader.data == b"[0]<stdout>:one\n[0]<stdout>:two\n"


def test_who_has_escaped_and_writes_without_end_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # epoll takes no devices
    monkeypatch.setattr(watching.selectors, "DefaultSelector", selectors.SelectSelector)
    endless = os.open("/dev/zero", os.O_RDONLY)
    host = Host(False, [lambda host: [AllGone()]])
    host.pipes[0] = RankPipes(endless, host.pipes[0].stderr)
    reader = Reader()
    watch({"here": host}, {(0, "stdout"): Stream(0, "stdout", Sink(reader))}, Verdict({0: "here"}))  # type: ignore[dict-item]
    assert reader.data.startswith(b"[0]<stdout>:\0")
    host.close()
    os.close(endless)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
def test_a_rank_is_judged_by_what_it_said_last(watched: Watched, elsewhere: bool) -> None:
    def fail(host: Host, reader: Reader) -> list[Event]:
        said = host.print(b"ValueError: bad data\n", "stderr")
        return [*said, RankEnded(0, code=3), AllGone()]

    verdict, _ = watched(elsewhere, fail)
    assert (
        verdict.sentence(["python"])
        == "hvdliterun: rank 0 on here exited with code 3: ValueError: bad data."
    )
