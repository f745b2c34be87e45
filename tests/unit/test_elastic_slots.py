"""Cool-downs, the placing of members, and what a discovery script has said."""

from __future__ import annotations

import math
import random
import signal
from collections.abc import Sequence
from dataclasses import replace

import pytest

from hvdlite.launch.elastic import events
from hvdlite.launch.elastic.discovery import MOST_BYTES, Answer, Answers, BadAnswer, parse
from hvdlite.launch.elastic.members import Cooldowns, Member, free_slots, in_order
from hvdlite.launch.elastic.outcome import Fault, Faults, of_process
from hvdlite.launch.hosts import Host


def _delays(cooldowns: Cooldowns, failures: int) -> list[float]:
    now, delays = 0.0, []
    for _ in range(failures):
        delays.append(cooldowns.failed("a", now))
        now += delays[-1]
    return delays


def test_a_cooldown_doubles_up_to_a_minute() -> None:
    assert _delays(Cooldowns(chance=lambda: 1.0), 8) == [1, 2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize(
    ("chance", "delays"),
    [(0.0, [10, 20, 40, 80, 100, 100]), (0.5, [15, 25, 45, 85, 100, 100])],
)
def test_a_range_bounds_it_and_chance_adds_to_it(chance: float, delays: list[float]) -> None:
    assert _delays(Cooldowns((10.0, 100.0), lambda: chance), 6) == delays


def test_a_cooldown_is_never_for_ever() -> None:
    assert max(_delays(Cooldowns((1.0, 7.0), random.Random(1).random), 2000)) == pytest.approx(7.0)


def test_for_good_is_for_good() -> None:
    cooldowns = Cooldowns(for_good=True)
    assert cooldowns.failed("a", 0.0) == math.inf
    assert cooldowns.empty("a", 1e12) and cooldowns.next_end(0.0) is None


def test_failures_are_forgotten_after_ten_quiet_minutes() -> None:
    cooldowns = Cooldowns()
    assert [cooldowns.failed("a", now) for now in (0.0, 10.0, 609.0)] == [1, 2, 4]
    assert cooldowns.failed("a", 613.0 + 600.0) == 1


def test_a_failure_of_an_empty_place_does_not_extend_its_time() -> None:
    cooldowns = Cooldowns((10.0, 100.0))
    assert cooldowns.failed("a", 0.0) == 10
    assert cooldowns.failed("a", 4.0) == 6
    assert cooldowns.empty("a", 9.9) and not cooldowns.empty("a", 10.0)
    assert not cooldowns.empty("b", 0.0)


def test_failures_are_remembered_while_the_place_is_empty() -> None:
    cooldowns = Cooldowns((700.0, 5000.0))
    assert [cooldowns.failed("a", now) for now in (0.0, 650.0, 700.0)] == [700, 50, 1400]


def test_the_next_end_is_the_nearest() -> None:
    cooldowns = Cooldowns()
    cooldowns.failed("a", 0.0)
    cooldowns.failed("b", 0.5)
    assert [cooldowns.next_end(now) for now in (0.5, 1.0, 1.5)] == [1.0, 1.5, None]
    assert cooldowns.running(0.75) == {"a": 0.25, "b": 0.75}
    assert cooldowns.running(1.25) == {"b": 0.25}


def test_slots_are_free_host_by_host_and_from_below() -> None:
    hosts = [Host("a", 2), Host("b", 4)]
    taken = {("a", 0), ("b", 1)}
    assert list(free_slots(hosts, taken, lambda host, slot: False, {})) == [
        ("a", 1),
        ("b", 0),
        ("b", 2),
        ("b", 3),
    ]
    cools = {("b", 2)}
    found = list(free_slots(hosts, taken, lambda host, slot: (host, slot) in cools, {}))
    assert found == [("a", 1), ("b", 0)]


@pytest.mark.parametrize(
    ("taken", "beyond", "free"),
    [
        ((), 1, (0, 1)),
        ((), 3, ()),
        ((0,), 1, (1,)),
        ((1,), 1, (0,)),
        ((0, 1), 2, ()),
    ],
)
def test_a_process_beyond_the_slots_takes_the_place_of_the_highest(
    taken: tuple[int, ...], beyond: int, free: tuple[int, ...]
) -> None:
    places = {("a", slot) for slot in taken} | {("a", 3 + number) for number in range(beyond)}
    found = free_slots([Host("a", 3)], places, lambda host, slot: False, {"a": beyond})
    assert [slot for _, slot in found] == list(free)


def test_survivors_come_first_and_keep_their_order() -> None:
    def newcomer(number: int, host: str, slot: int) -> Member:
        return Member(number, host, slot, meets=False, awaited=False)

    def survivor(number: int, host: str, slot: int, rank: int) -> Member:
        return replace(newcomer(number, host, slot), has_state=True, rank=rank)

    members = [
        newcomer(1, "new", 0),
        newcomer(2, "old", 0),
        survivor(3, "b", 2, rank=5),
        survivor(4, "b", 3, rank=4),
        newcomer(5, "b", 0),
        survivor(6, "a", 0, rank=1),
    ]
    ordered = in_order(members, ["old", "a", "b", "new"])
    assert [member.number for member in ordered] == [6, 4, 3, 5, 2, 1]


@pytest.mark.parametrize(
    ("output", "hosts"),
    [
        (b"a:4\nb\n", [Host("a", 4), Host("b", 3)]),
        (b"\n  a:1  \r\n\n", [Host("a", 1)]),
        (b"[fd00::1]:2\nuser@node-7.x_y:08", [Host("[fd00::1]", 2), Host("user@node-7.x_y", 8)]),
    ],
)
def test_a_script_names_hosts(output: bytes, hosts: list[Host]) -> None:
    assert parse(output, slots_per_host=3) == tuple(hosts)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (b"", "no host"),
        (b"\n \n", "no host"),
        (b"a:0", "a:0"),
        (b"a:-1", "a:-1"),
        (b"a:2,b:2", "a:2,b:2"),
        (b"a slots=4", "slots=4"),
        (b"-oProxyCommand=x", "ProxyCommand"),
        (b"a:1\na:2", "'a' twice"),
        (b"a:99999999", "more than"),
        (b"a:" + b"9" * 5000, "expected"),
        (b"\xff\xfe", "no text"),
        (b"Traceback (most recent call last):\n", "Traceback"),
        (b"a\x1b[2J", r"\x1b"),
        (b"a:1\n" * MOST_BYTES, "more than 65536 bytes"),
    ],
)
def test_an_answer_that_names_no_hosts_is_refused(output: bytes, said: str) -> None:
    with pytest.raises(BadAnswer) as refused:
        parse(output)
    assert said in str(refused.value).replace("\\\\", "\\")
    assert len(str(refused.value)) < 300 and str(refused.value).isprintable()


def test_any_output_is_hosts_or_refused() -> None:
    rng = random.Random(7)
    letters = b"ab:019\n,-[] @.#\xff\x00=s"
    for _ in range(5000):
        output = bytes(rng.choices(letters, k=rng.randint(0, 30)))
        try:
            hosts = parse(output)
        except BadAnswer:
            continue
        assert hosts and all(host.slots > 0 for host in hosts)


def test_the_first_failure_of_a_script_is_fatal() -> None:
    for answer in (
        Answers().ended(1, b"a:2"),
        Answers().ended(0, b"not a host"),
        Answers().hangs(30),
    ):
        assert answer.fatal and answer.hosts is None
        assert answer.trouble.startswith("the host discovery script has failed: ")


def test_later_failures_are_told_once_and_the_last_answer_stays() -> None:
    answers = Answers(slots_per_host=2)
    assert answers.ended(0, b"a\nb:1") == Answer((Host("a", 2), Host("b", 1)))
    assert answers.ended(0, b"a:2\nb:1") == Answer(), "nothing is new"
    trouble = answers.ended(7, b"").trouble
    assert trouble.endswith("it has ended with status 7. Its last answer stays.")
    assert "not a host" in answers.ended(0, b"not a host").trouble
    assert "more than 30 s" in answers.hangs(30).trouble
    for again in (answers.ended(8, b""), answers.ended(0, b"rubbish?"), answers.hangs(30)):
        assert again == Answer(), "its kind was told"
    assert answers.ended(0, b"b:1") == Answer((Host("b", 1),))
    assert answers.ended(9, b"").trouble, "after a run that went well"


def test_faults_are_three_in_a_row() -> None:
    faults = Faults()
    generation = 0

    def fails(line: str, position: int = 5, is_error: bool = True, number: int = 0) -> Fault | None:
        nonlocal generation
        generation += 1
        ended = events.Ended(1, 128 + number if number else 1, line, is_error, number)
        faults.note(of_process(1, "a", ended))
        return faults.at(position, generation, started=1)

    assert not fails("ValueError: x") and not fails("ValueError: x")
    for _ in range(3):
        assert not fails("PeerLostError: rank 2 is lost"), "a consequence does not count"
    assert not fails("ValueError: y"), "nor does another exception"
    assert not fails("generation 1 has ended", is_error=False), "nor what names none"
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
        assert not fails("ValueError: x", number=number), "nor what was killed"
    found = fails("ValueError: x")
    assert found and (found.times, found.host) == (3, "a")
    assert not fails("ValueError: x", position=6), "the job has come further"
    assert not fails("ValueError: x", position=5), "or has gone back"


def test_what_ends_together_counts_once_unless_no_member_is_left() -> None:
    faults = Faults()

    def fail(members: Sequence[int], generation: int, alone: bool = False) -> Fault | None:
        for member in members:
            ended = events.Ended(member, 1, "ValueError: x", is_error=True)
            faults.note(of_process(member, f"host{member % 2}", ended))
        return faults.at(0, generation, started=max(members), alone=alone)

    assert not fail([1, 2, 3], 0) and not fail([2], 0), "all were started together"
    assert not fail([5], 0) and not fail([4], 0)
    assert (found := fail([4], 1)) and (found.times, found.host) == (3, None)
    faults = Faults()
    assert not fail([1, 3], 0, alone=True)
    assert (found := fail([5], 0, alone=True)) and (found.times, found.host) == (3, "host1")


ENDS = {
    "an exception": (
        events.Ended(1, 1, "ValueError: x.", True), "ended with status 1: ValueError: x.",
    ),
    "a kill": (
        events.Ended(1, 137, "generation 1 has ended: rank 0 died", False, signal.SIGKILL),
        "was killed by SIGKILL (sent by a user or a program, or by the kernel when memory ran "
        "out).",
    ),
    "a crash": (events.Ended(1, 139, "epoch 3", False, signal.SIGSEGV), "was killed by SIGSEGV."),
    "a status like that of a kill": (events.Ended(1, 137), "ended with status 137."),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDS)
def test_how_a_member_has_ended_is_said_in_one_sentence(case: str) -> None:
    ended, how = ENDS[case]
    assert of_process(1, "a", ended).sentence() == f"member 1 on a {how}"
