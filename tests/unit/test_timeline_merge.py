"""hvdlite/observe/timeline: the timelines of all ranks as one trace, with texts and profiles made
here. tests/multiprocess/test_observation.py merges those of a real job."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from hvdlite.observe.timeline import merging, reading
from hvdlite.tools.commands.cli import main


class Recorded:
    """A rank's timeline. `ahead`: its clock is that many microseconds before the true time."""

    def __init__(self, rank: int, *, boot: str, ahead: float = 0.0, drift: float = 0.0) -> None:
        self.rank, self._ahead, self._drift = rank, ahead, drift
        self._events: list[dict[str, Any]] = [
            {
                "name": "process_name", "ph": "M", "pid": rank, "tid": 0,
                "args": {
                    "name": f"rank {rank}", "boot": boot,
                    "start_time_since_epoch_in_micros": 1_700_000_000_000_000,
                    "monotonic_nanoseconds": int(1e3 * (5_000_000 + ahead)),
                },
            }
        ]  # fmt: skip

    def _add(self, kind: str, time: float, name: str = "", **more: Any) -> None:
        moved = time * (1 + self._drift) + self._ahead
        named = {"name": name} if name else {}
        self._events.append({"ph": kind, "pid": self.rank, "tid": 1, "ts": moved, **named, **more})

    def perform(
        self, number: int, asked: float, began: float, ended: float, kind: str = "ALLREDUCE"
    ) -> None:
        self._add("B", asked, "grad")
        self._add("B", asked, f"NEGOTIATE_{kind}")
        self._add("X", asked, str(self.rank), dur=0)
        self._add("E", began)
        self._add("B", began, kind)
        self._add("B", began, f"NET_{kind}")
        self._add("E", ended, args={"communicator": "net"})
        about = {"dtype": "float32", "shape": "[2, 5]", "set": 0, "decision": number}
        self._add("E", ended, args=about)
        self._add("E", ended)

    def text(self) -> str:
        return "[\n" + ",\n".join(json.dumps(event) for event in self._events) + "]"

    def trace(self) -> reading.Trace:
        return reading.read(self.text())


def _train(ranks: list[Recorded], steps: int, late: int, kind: str = "ALLREDUCE") -> None:
    """Steps of 50 ms in which the rank `late` asks 5 ms after the others."""
    noise = random.Random(1)
    for step in range(steps):
        asked = [step * 50e3 + noise.random() * 100 for _ in ranks]
        asked[late] += 5e3
        for rank, when in zip(ranks, asked, strict=True):
            began = max(asked) + 20 + 30 * noise.random()
            rank.perform(step, when, began, max(asked) + 100 + 50 * noise.random(), kind)


def test_an_operation_is_read_with_its_times_and_its_bytes() -> None:
    rank = Recorded(2, boot="a")
    rank.perform(7, 10.0, 20.0, 30.0)
    (operation,) = rank.trace().operations
    assert (operation.asked, operation.began, operation.ended) == (10.0, 20.0, 30.0)
    assert (operation.kind, operation.bytes) == ("ALLREDUCE", 40)
    assert operation.key == (0, 7, "grad")


def test_half_an_event_at_the_end_of_a_killed_ranks_file_is_left_out() -> None:
    rank = Recorded(0, boot="a")
    rank.perform(0, 1.0, 2.0, 3.0)
    rank.perform(1, 4.0, 5.0, 6.0)
    torn = rank.text()[:-40]
    with pytest.raises(json.JSONDecodeError):
        json.loads(torn)
    assert [o.ended for o in reading.read(torn).operations][0] == 3.0


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "not a timeline"), ("[]", "no rank's clock"), ("[1]", "not a timeline")],
)
def test_another_file_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        reading.read(text)


def test_ranks_of_one_boot_share_a_clock_exactly() -> None:
    ranks = [Recorded(0, boot="a"), Recorded(1, boot="a", ahead=700.0)]
    _train(ranks, 3, late=1)
    merged = merging.merge([rank.trace() for rank in ranks])
    assert merged.ranks[1].alignment.error == 0
    assert merged.ranks[1].at(700.0) == pytest.approx(2 * 700.0)


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("ahead", [0.0, 3.7e6, -2.2e9])
def test_clocks_of_two_hosts_are_compared_by_what_they_did_together(
    late: int, ahead: float
) -> None:
    ranks = [Recorded(0, boot="a"), Recorded(1, boot="b", ahead=ahead)]
    _train(ranks, 100, late)
    placed = merging.merge([rank.trace() for rank in ranks]).ranks[1]
    assert placed.alignment.error is not None and placed.alignment.error < 100
    assert abs(placed.at(1e6 + ahead) - 1e6) <= placed.alignment.error
    assert placed.alignment.how == "100 operations"


def test_a_clock_that_drifts_is_followed() -> None:
    drift = 50e-6
    ranks = [Recorded(0, boot="a"), Recorded(1, boot="b", ahead=1e6, drift=drift)]
    _train(ranks, 2000, late=1)  # 100 s, in which the clocks move apart by 5 ms
    placed = merging.merge([rank.trace() for rank in ranks]).ranks[1]
    for time in (1e6, 30e6, 61e6, 97e6):
        assert abs(placed.at(time * (1 + drift) + 1e6) - time) < 600


def test_broadcasts_do_not_compare_clocks() -> None:
    ranks = [Recorded(0, boot="a"), Recorded(1, boot="b", ahead=5e3)]
    _train(ranks, 10, late=1, kind="BROADCAST")
    alignment = merging.merge([rank.trace() for rank in ranks]).ranks[1].alignment
    assert alignment.error is None and merging.uncertainty(alignment) == "unknown"


def test_arrows_lead_from_the_rank_that_asked_last_to_those_that_waited() -> None:
    ranks = [Recorded(n, boot="a") for n in range(3)]
    _train(ranks, 4, late=2)
    merged = merging.merge([rank.trace() for rank in ranks])
    begins = {e["id"]: e for e in merged.events if e["ph"] == "s"}
    ends = {e["id"]: e for e in merged.events if e["ph"] == "f"}
    assert merged.arrows == len(begins) == 4 * 2 and begins.keys() == ends.keys()
    assert {e["pid"] for e in begins.values()} == {2}
    assert sorted(e["pid"] for e in ends.values()) == [0] * 4 + [1] * 4
    assert all(begins[n]["ts"] < ends[n]["ts"] for n in begins)


def test_counters_follow_the_operations() -> None:
    rank = Recorded(0, boot="a")
    rank.perform(0, 1.0, 2.0, 3.0)
    rank.perform(1, 4.0, 5.0, 6.0)
    counted: dict[str, list[int]] = {}
    for event in merging.merge([rank.trace()]).events:
        if event["ph"] == "C":
            counted.setdefault(event["name"], []).append(event["args"]["value"])
    assert counted == {"operations in flight": [1, 0, 1, 0], "bytes communicated": [40, 80]}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The timeline of rank 0; that of rank 1 is beside it."""
    ranks = [Recorded(0, boot="a"), Recorded(1, boot="a", ahead=50.0)]
    _train(ranks, 3, late=0)
    for rank, name in zip(ranks, ("t.json", "t.rank1.json"), strict=True):
        (tmp_path / name).write_text(rank.text())
    return tmp_path / "t.json"


def test_the_command_takes_the_other_ranks_files_and_says_how_exact_the_clocks_are(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", "merge", str(files)]) == 0
    said = capsys.readouterr().out
    assert "rank 1: 3 operations, error of the clock 0 (one clock)" in said and "3 arrows" in said
    merged = json.loads(files.with_name("t.merged.json").read_text())
    assert {event["pid"] for event in merged["traceEvents"]} == {0, 1}
    assert merged["otherData"]["clocks"]["rank 1"] == "0 (one clock)"
    assert (
        main(["timeline", "merge", str(files)]) == 0
    )  # does not take the merged file for a rank's


def test_a_profile_of_torch_lies_beside_its_rank_on_the_same_clock(files: Path) -> None:
    base = 1_600_000_000_000_000_000  # nanoseconds
    offset = 1_700_000_000_000_000 - base / 1e3
    profile = {
        "baseTimeNanoseconds": base,
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "args": {"name": "python"}},
            {"ph": "X", "name": "aten::mm", "pid": 77, "tid": 5, "ts": offset + 150.0, "dur": 3},
        ],
    }
    where = files.with_name("torch.json.gz")
    where.write_bytes(gzip.compress(json.dumps(profile).encode()))
    output = files.with_name("out.json.gz")
    command = ["timeline", "merge", str(files), "-o", str(output), "--profile", f"1={where}"]
    assert main(command) == 0
    events = json.loads(gzip.decompress(output.read_bytes()))["traceEvents"]
    (mm,) = [event for event in events if event.get("name") == "aten::mm"]
    assert mm["ts"] == pytest.approx(150.0 + 50.0, abs=1.0) and mm["pid"] == 20_000
    names = [e["args"]["name"] for e in events if e.get("name") == "process_name"]
    assert "rank 1: python" in names


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{t}", "{t}"], "two of the files are timelines of rank 0"),
        (["{t}x"], "No such file"),
        (["{t}", "--profile", "9={t}"], "no timeline of rank 9"),
        (["{t}", "--profile", "0={t}"], "is not a profiler's trace"),
        (["{t}", "--profile", "0={here}"], "no .xplane.pb"),
        (["{t}", "-o", "{here}/no/such/folder.json"], "No such file"),
    ],
)
def test_what_cannot_be_merged_is_one_sentence(
    files: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"t": files, "here": files.parent}
    assert main(["timeline", "merge", *[text.format(**places) for text in arguments]]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and says in said
