"""Whose failure ended the job, and which processes belong to it."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Mapping

import pytest

from hvdlite.launch import watch as watching
from hvdlite.launch.observers import Contained, JobObserver, Observers
from hvdlite.launch.output import IDLE_SECONDS, Sink, Stream
from hvdlite.launch.spawn import guardian
from hvdlite.launch.spawn.events import (
    AllGone,
    Event,
    Output,
    RankEnded,
    RankStartFailed,
    Unanswered,
)
from hvdlite.launch.spawn.guardian import Process, members
from hvdlite.launch.spawn.silent_hosts import PATIENCE_SECONDS, Patience
from hvdlite.launch.verdict import BLAMED_SECONDS, CAUSE_SECONDS, SURVIVOR_SECONDS, Verdict
from hvdlite.launch.watch import watch

COMMAND = ["python", "train.py"]


def _verdict(ranks: int = 3) -> Verdict:
    return Verdict({rank: f"host{rank}" for rank in range(ranks)})


def test_a_job_whose_ranks_end_well_ends_well() -> None:
    verdict = _verdict()
    for rank in range(3):
        verdict.ended(RankEnded(rank), b"some words", 0)
        assert not verdict.decide(0)
    verdict.gone = AllGone()
    assert (verdict.status(), verdict.sentence(COMMAND)) == (0, "")


@pytest.mark.parametrize(
    ("ranks", "met", "command", "is_told"),
    [
        (3, False, ["/usr/bin/python3.11", "train.py"], True),
        (3, False, ["./train.py"], True),
        (3, True, ["python", "train.py"], False),
        (1, False, ["python", "train.py"], False),
        (3, False, ["hostname"], False),
    ],
)
def test_python_programs_that_never_met_are_told_so(
    ranks: int, met: bool, command: list[str], is_told: bool
) -> None:
    verdict = _verdict(ranks)
    verdict.has_met = met
    verdict.gone = AllGone()
    told = (
        "hvdliterun: no rank has called hvd.init(), so 3 programs have run independently. "
        "--torch-distributed=hvdlite is for programs that read torchrun's variables."
    )
    assert (verdict.status(), verdict.sentence(command)) == (0, told if is_told else "")


def test_the_first_failure_gives_the_status_and_the_last_line() -> None:
    verdict = _verdict()
    verdict.ended(RankEnded(1, code=3), b"ValueError: bad", 0)
    assert verdict.decide(0)
    assert not verdict.decide(0)
    verdict.ended(RankEnded(0, signal=signal.SIGTERM), b"", 1)  # by us
    verdict.ended(RankEnded(2, code=7), b"", 1)
    assert verdict.status() == 3
    assert verdict.sentence(COMMAND) == (
        "hvdliterun: rank 1 on host1 exited with code 3: ValueError: bad. All other ranks have "
        "ended, too."
    )


def test_a_failure_calls_off_the_ranks_next_meeting() -> None:
    verdict = _verdict()
    told: list[tuple[int, str]] = []
    verdict.call_off = lambda rank, why: told.append((rank, why))
    verdict.ended(RankEnded(2, code=0), b"", 0)
    assert told == [], "a rank that is done may be no part of it"
    verdict.ended(RankEnded(1, code=3), b"ValueError: bad.", 0)
    verdict.decide(0)
    verdict.ended(RankEnded(0, signal=signal.SIGTERM), b"", 1)  # by us
    why = "rank 1 on host1 exited with code 3: ValueError: bad. hvd.init() needs all ranks."
    assert told == [(1, why)]


def test_a_killed_rank_counts_as_128_and_the_signal() -> None:
    verdict = _verdict(1)
    verdict.ended(RankEnded(0, signal=signal.SIGKILL), b"", 0)
    assert verdict.decide(0)
    assert verdict.status() == 137
    assert verdict.sentence(COMMAND).startswith(
        "hvdliterun: rank 0 on host0 was killed by SIGKILL (sent by a user or a program"
    )


def test_of_ranks_that_died_at_once_a_crash_is_the_cause() -> None:
    verdict = _verdict()
    verdict.ended(RankEnded(0, code=1), b"RuntimeError: x", 0)
    verdict.ended(RankEnded(2, signal=signal.SIGSEGV), b"", 0)
    assert verdict.decide(0)
    assert verdict.status() == 139


def test_a_rank_that_lost_a_peer_is_not_the_cause_if_the_peer_fails_soon() -> None:
    verdict = _verdict()
    verdict.ended(RankEnded(0, code=1), b"hvdlite.exceptions.PeerLostError: rank 1 is gone", 0)
    assert verdict.pending() and not verdict.decide(CAUSE_SECONDS / 2)
    verdict.ended(RankEnded(1, code=5), b"ValueError: bad", CAUSE_SECONDS / 2)
    assert verdict.decide(CAUSE_SECONDS / 2)
    assert not verdict.pending()
    assert verdict.status() == 5


def test_a_lost_peer_is_the_cause_when_no_other_comes() -> None:
    verdict = _verdict()
    verdict.ended(RankEnded(0, code=1), b"PeerLostError: rank 1 is silent", 0)
    assert not verdict.decide(CAUSE_SECONDS * 0.9)
    assert verdict.decide(CAUSE_SECONDS)
    assert verdict.status() == 1


def test_a_rank_that_others_name_as_the_cause_ends_in_its_own_time() -> None:
    verdict = _verdict()
    verdict.ended(RankEnded(0, code=1), b"PeerLostError: rank 1 failed: ValueError: bad", 0)
    assert not verdict.decide(BLAMED_SECONDS * 0.9)
    verdict.ended(RankEnded(1, code=5), b"ValueError: bad", BLAMED_SECONDS * 0.95)
    assert verdict.decide(BLAMED_SECONDS * 0.95) and verdict.culprit() == 1


def test_a_rank_that_others_name_as_the_cause_is_not_waited_for_without_end() -> None:
    verdict = _verdict()
    verdict.ended(RankEnded(0, code=1), b"PeerLostError: rank 1 failed: ValueError: bad", 0)
    assert verdict.decide(BLAMED_SECONDS) and verdict.culprit() == 0


SILENT = (
    b"PeerLostError: the connection of rank 0 (10.0.0.2) with rank 2 (10.0.0.4) is interrupted: "
    b"bytes are sent, but nothing has been acknowledged for 21 s"
)


def test_a_network_is_silent_if_the_launcher_hears_both_hosts() -> None:
    verdict = _verdict()
    verdict.ended(RankEnded(0, code=1), SILENT, 0)
    assert verdict.decide(CAUSE_SECONDS)
    assert "Both hosts" not in verdict.sentence(COMMAND)
    verdict.ended(RankEnded(2, code=1), SILENT, 1)
    assert (
        "acknowledged for 21 s. Both hosts are alive and answer hvdliterun: the network between "
        "host0 and host2 is silent. All other ranks"
    ) in verdict.sentence(COMMAND)


def test_a_lost_host_is_no_silent_network() -> None:
    verdict = _verdict()
    verdict.lost_host("host2", "ssh has ended")
    verdict.ended(RankEnded(0, code=1), SILENT, 0)
    verdict.ended(RankEnded(2, signal=signal.SIGKILL), b"", 1)
    assert verdict.decide(2)
    assert "Both hosts" not in verdict.sentence(COMMAND)


def _dead(verdict: Verdict) -> None:
    verdict.ended(RankEnded(1, signal=signal.SIGKILL), b"", 5)


def _host_lost(verdict: Verdict) -> None:
    verdict.lost_host("host1", "ssh ended with status 255")


@pytest.mark.parametrize("happens", [_dead, _host_lost])
def test_ranks_that_have_met_get_the_time_to_hear_of_a_loss(
    happens: Callable[[Verdict], None],
) -> None:
    verdict = _verdict()
    verdict.hearing = lambda: True
    happens(verdict)
    assert not verdict.decide(5) and verdict.pending()
    verdict.ended(RankEnded(0, code=1), b"PeerLostError: rank 1 is gone", 5.1)
    verdict.ended(RankEnded(2, signal=signal.SIGSEGV), b"", 5.2)  # in what it does about the loss
    assert not verdict.decide(5 + SURVIVOR_SECONDS * 0.9)
    assert verdict.decide(5 + SURVIVOR_SECONDS) and not verdict.decide(9) and not verdict.pending()
    assert "host1" in verdict.sentence(COMMAND) and verdict.culprit() in (1, None)


def test_a_signal_ends_the_time_that_survivors_have() -> None:
    verdict = _verdict()
    verdict.hearing = lambda: True
    _dead(verdict)
    assert not verdict.decide(5)
    verdict.hurried = True
    assert verdict.decide(5.1)
    assert verdict.status() == 137


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_that_have_not_met_are_ended_at_once(ranks: int) -> None:
    verdict = _verdict(ranks)
    verdict.hearing = lambda: ranks == 1  # alone, there is no other
    verdict.ended(RankEnded(0, code=3), b"", 5)
    assert verdict.decide(5)


def test_an_interrupt_ends_the_job_with_its_signal() -> None:
    verdict = _verdict()
    verdict.interrupted = signal.SIGINT
    assert verdict.decide(0)
    verdict.ended(RankEnded(0, signal=signal.SIGTERM), b"", 0)
    assert verdict.status() == 130
    assert verdict.sentence(COMMAND) == "hvdliterun: ended by SIGINT; all ranks were ended."


@pytest.mark.parametrize(
    ("number", "status"), [(errno.ENOENT, 127), (errno.EACCES, 126), (errno.ENOEXEC, 126)]
)
def test_a_command_that_cannot_start_has_the_shells_status(number: int, status: int) -> None:
    verdict = _verdict()
    verdict.start_failure = RankStartFailed(0, number)
    assert verdict.decide(0)
    assert verdict.status() == status
    assert "cannot start 'train.py'" in verdict.sentence(["train.py"])
    assert "Did you mean `python train.py`?" in verdict.sentence(["train.py"])
    misspelt = verdict.sentence(["pyhton", "train.py"])
    assert ("Did you mean `python`?" in misspelt) == (number == errno.ENOENT)


def test_a_killed_guardian_is_no_success() -> None:
    verdict = _verdict()
    verdict.gone = AllGone(guardian_died=True)
    assert verdict.status() == 1
    assert "guardian" in verdict.sentence(COMMAND)


def test_a_lost_host_is_the_cause_of_what_its_loss_does_to_others() -> None:
    verdict = _verdict()
    verdict.ended(RankEnded(0, code=1), b"PeerLostError: rank 2 is silent", 0)
    verdict.lost_host("host2", "ssh ended with status 255")
    assert verdict.decide(0)
    verdict.lost_host("host1", "ssh ended, too")  # by us
    assert verdict.status() == 255
    assert verdict.sentence(COMMAND) == (
        "hvdliterun: host host2 was lost: ssh ended with status 255. All other ranks have "
        "ended, too."
    )


def test_ranks_that_the_agent_of_a_lost_host_kills_are_not_the_cause() -> None:
    verdict = _verdict()
    rank = next(rank for rank, host in verdict.hosts.items() if host == "host2")
    verdict.lost_host("host2", "its connection has ended")
    verdict.ended(RankEnded(rank, signal=signal.SIGKILL), b"", 0)  # in the same batch of events
    assert verdict.decide(0)
    assert (verdict.status(), "host host2 was lost" in verdict.sentence(COMMAND)) == (255, True)
    assert verdict.culprit() is None


def test_a_failure_of_its_own_comes_before_a_lost_host() -> None:
    verdict = _verdict()
    verdict.ended(RankEnded(0, code=3), b"ValueError: bad", 0)
    verdict.lost_host("host2", "ssh ended")
    assert (verdict.status(), "rank 0" in verdict.sentence(COMMAND)) == (3, True)


def test_ranks_that_may_still_run_are_told_and_are_no_success() -> None:
    verdict = _verdict()
    verdict.interrupted = signal.SIGINT
    verdict.unanswered("host2", killed=False)
    assert verdict.status() == 255
    assert verdict.sentence(COMMAND) == (
        "hvdliterun: ended by SIGINT. Host host2 did not answer; its ranks may still run."
    )
    verdict.unanswered("host1", killed=False)
    assert verdict.sentence(COMMAND).endswith(
        " Hosts host2, host1 did not answer; their ranks may still run."
    )


def test_a_cause_is_told_though_a_host_has_not_answered() -> None:
    verdict = _verdict()
    verdict.ended(RankEnded(0, code=3), b"ValueError: bad", 0)
    verdict.unanswered("host2", killed=False)
    assert verdict.status() == 255
    assert verdict.sentence(COMMAND) == (
        "hvdliterun: rank 0 on host0 exited with code 3: ValueError: bad. Host host2 did not "
        "answer; its ranks may still run."
    )


def test_ranks_that_were_killed_without_their_guardian_are_told() -> None:
    verdict = _verdict(1)
    verdict.interrupted = signal.SIGTERM
    verdict.unanswered("host0", killed=True)
    assert verdict.status() == 143
    assert verdict.sentence(COMMAND) == (
        "hvdliterun: ended by SIGTERM; all ranks were ended. "
        "The guardian (host0) did not answer: hvdliterun itself has killed the ranks that were "
        "left."
    )


def test_a_host_is_given_up_when_its_time_is_over_and_it_is_silent() -> None:
    patience = Patience()
    assert patience.left(0) is None  # it was asked for nothing
    patience.asked(10, now=0)
    assert patience.left(4) == 6
    patience.asked(2, now=4)  # at once, please
    assert patience.left(4) == 2
    patience.asked(100, now=5)
    assert patience.left(5) == 1
    patience.heard(5.5)
    assert patience.left(6) == PATIENCE_SECONDS - 0.5
    assert patience.left(5.5 + PATIENCE_SECONDS) == 0 == patience.left(1e9)


def test_last_words_that_are_no_text_can_be_shown() -> None:
    verdict = _verdict(1)
    verdict.ended(RankEnded(0, code=1), b"\xff\xfe", 0)
    assert r"code 1: \xff\xfe." in verdict.sentence(COMMAND)


def test_members_are_descendants_and_whoever_shares_a_session() -> None:
    table = [
        Process(10, 1, 10),  # the guardian
        Process(11, 10, 11),  # a rank
        Process(12, 11, 11),  # its child
        Process(13, 10, 13),  # an orphan that called setsid, adopted by the guardian
        Process(14, 1, 11),  # an orphan of the rank's session that somebody else adopted
        Process(15, 14, 15),  # and its child
        Process(20, 1, 20),  # somebody else
    ]
    assert sorted(members(table, 10, {11})) == [11, 12, 13, 14, 15]
    assert sorted(members(table, None, {11})) == [11, 12, 14, 15]
    assert members(table, None, set()) == []


def test_sigkill_follows_sigterm_after_the_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian, "processes", lambda: [])
    monkeypatch.setattr(guardian.time, "monotonic", lambda: 100.0)
    state = guardian.GuardState(grace_seconds=7.0)
    guardian._enter(state, "terminating")
    assert (state.phase, state.deadline) == ("terminating", 107.0)


class Elsewhere:
    """A host of which everything is known already: what `watch` is told in each of its turns."""

    def __init__(self, *turns: list[Event]) -> None:
        self.pipes: dict[int, object] = {}
        self._turns = list(turns)
        self._reader, writer = os.pipe()
        os.write(writer, bytes(len(turns)))
        os.close(writer)

    def fileno(self) -> int:
        return self._reader

    def events(self) -> list[Event]:
        os.read(self._reader, 1)
        return self._turns.pop(0)


class SlowWriter:
    backlog = 0

    def __init__(self) -> None:
        self.data = b""
        self.now = 0.0

    def put(self, data: bytes) -> None:
        self.now += 1.5 * IDLE_SECONDS  # it gets no processor for so long
        self.data += data

    def monotonic(self) -> float:
        return self.now


def test_a_launcher_that_gets_no_processor_does_not_take_that_for_silence_in_the_middle_of_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = SlowWriter()
    monkeypatch.setattr(watching, "time", writer)
    sink = Sink(writer)  # type: ignore[arg-type]
    streams = {(rank, "stdout"): Stream(rank, "stdout", sink) for rank in range(2)}
    host = Elsewhere(
        [Output(0, "stdout", b"half a "), Output(1, "stdout", b"one\n")],
        [Output(1, "stdout", b"two\n"), Output(0, "stdout", b"line\n"), AllGone()],
    )
    watch({"a": host}, streams, _verdict(2))  # type: ignore[dict-item]
    os.close(host.fileno())
    assert writer.data == b"[1]<stdout>:one\n[1]<stdout>:two\n[0]<stdout>:half a line\n"


class Clock:
    """Time passes where somebody waits, until the next of these signals comes. Nothing is ever
    ready."""

    def __init__(self, *signals: tuple[float, int]) -> None:
        self.now = 0.0
        self.caught: list[int] = []
        self.wake = -1
        self._signals = list(signals)
        self._waits = 0

    def monotonic(self) -> float:
        return self.now

    def register(self, *_: object) -> None:
        pass

    unregister = register

    def select(self, timeout: float | None) -> list[object]:
        until = [self.now + timeout] if timeout is not None else []
        comes = [when for when, _ in self._signals[:1]]
        assert until or comes, "nothing would ever end this wait"
        self._waits += 1
        assert self._waits < 100, "it waits for ever, in no time"
        self.now = min(until + comes)
        if comes == [self.now]:
            self.caught.append(self._signals.pop(0)[1])
        return []

    def close(self) -> None:
        pass


class Frozen:
    """A host that hears and never answers."""

    def __init__(self, clock: Clock) -> None:
        self.pipes: dict[int, object] = {}
        self.asked: list[tuple[str, float]] = []
        self._clock = clock

    def fileno(self) -> int:
        return 1000

    def terminate(self) -> None:
        self.asked.append(("terminate", self._clock.now))

    def kill(self) -> None:
        self.asked.append(("kill", self._clock.now))

    def ending_seconds(self, politely: bool) -> float:
        return 60.0 if politely else 6.0

    def abandon(self) -> list[Event]:
        self.asked.append(("abandon", self._clock.now))
        return [Unanswered(killed=False), AllGone()]


@pytest.mark.parametrize(
    ("signals", "asked"),
    [
        ([(1.0, signal.SIGTERM)], [("terminate", 1.0), ("abandon", 61.0)]),
        (
            [(1.0, signal.SIGINT), (3.0, signal.SIGINT)],
            [("terminate", 1.0), ("kill", 3.0), ("abandon", 9.0)],
        ),
        (
            [(1.0, signal.SIGINT), (3.0, signal.SIGINT), (8.0, signal.SIGTERM)],
            [("terminate", 1.0), ("kill", 3.0), ("kill", 8.0), ("abandon", 9.0)],
        ),
    ],
    ids=["SIGTERM", "Ctrl-C twice", "Ctrl-C twice and SIGTERM"],
)
def test_who_does_not_answer_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
    signals: list[tuple[float, int]],
    asked: list[tuple[str, float]],
) -> None:
    clock = Clock(*signals)
    monkeypatch.setattr(watching, "time", clock)
    monkeypatch.setattr(watching.selectors, "DefaultSelector", lambda: clock)
    host, verdict = Frozen(clock), _verdict(1)
    watch({"host0": host}, {}, verdict, signals=clock)  # type: ignore[dict-item, arg-type]
    assert host.asked == asked
    assert verdict.status() == 255


class Broken(JobObserver):
    """Each call fails."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def _fail(self, call: str) -> None:
        self.called.append(call)
        raise KeyError(call)

    def begin(self, *_: object) -> None:
        self._fail("begin")

    def calls(self) -> Mapping[int, Callable[[], None]]:
        return {0: lambda: self._fail("0 is readable")}

    def tick(self) -> float | None:
        self._fail("tick")
        return None

    def judged(self, *_: object) -> None:
        self._fail("judged")


class Other(JobObserver):
    def __init__(self) -> None:
        self.called: list[str] = []

    def tick(self) -> float | None:
        self.called.append("tick")
        return 30.0

    def judged(self, *_: object) -> None:
        self.called.append("judged")


def test_an_exception_of_an_observer_is_said_once_and_the_job_goes_on() -> None:
    said: list[str] = []
    broken, other = Broken(), Other()
    both = Observers(Contained(broken, "the monitor", said.append), other)
    both.begin(None, b"")  # type: ignore[arg-type]
    both.calls()[0]()
    assert both.tick() == 1.0  # it is tried again, and the launcher sleeps meanwhile
    both.judged(0, "")
    both.close()
    assert broken.called == ["begin", "0 is readable", "tick", "judged"]
    assert other.called == ["tick", "judged"]
    [line] = said
    assert line.startswith("the monitor has failed, and the job goes on: KeyError: 'begin' (")
    assert "test_watch.py:" in line


def test_ctrl_c_and_results_are_not_contained() -> None:
    class Interrupted(JobObserver):
        def end(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Contained(Interrupted(), "the monitor", lambda text: None).end()
    with pytest.raises(KeyError):  # hvdlite.run() raises a rank's exception so
        Observers(Broken()).tick()
