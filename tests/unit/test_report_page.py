"""The page of `hvdlite report`: valid, with the numbers of the job, and harmless."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_jobs import BEGAN, LAYERS, Imagined

from hvdlite.launch.monitor.report import ReportFile
from hvdlite.observe.report import charts, series, words
from hvdlite.observe.report.charts import Line
from hvdlite.observe.report.details import Tensor
from hvdlite.observe.report.facts import Facts, JobEnd
from hvdlite.observe.report.history import History
from hvdlite.observe.report.page import page

_VOID = {"meta", "br"}
EVIL = "<script>alert(1)</script>\"'&\x07"


class Parsed(HTMLParser):
    """Fails if tags do not match. Keeps texts, tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def of_class(self, name: str) -> Iterator[dict[str, str]]:
        return (attrs for _, attrs in self.tags if name in attrs.get("class", "").split())


def facts_of(job: Imagined, title: str = "train.py", **more: Any) -> Facts:
    history = History()
    for record in job.records():
        history.add(record)
    return history.facts(title, **more)


def test_the_numbers_of_the_job_are_on_the_page() -> None:
    job = Imagined(ranks=4, waits={2: 0.31}, heavy="fc.weight", hosts=("node1", "node2"))
    found = Parsed(page(facts_of(job, end=JobEnd(0)), BEGAN))
    text = found.text.replace("\u00a0", " ")
    for said in (
        "train.py", "ended well", "4 ranks, 2 hosts, 10 min 00 s, from 2026-09-21 14:13:20 UTC",
        "31 % of the time operations wait for rank 2 on node2.",
        "allreduce.fc.weight alone takes 51 % of the communication.", "rank 2 on node2", "31 %",
        "What rank 0 saw of 102\u202f000 operations.", "shared memory", "75 %", "shm stream",
        "25\u202f500", "python", "3.11.9", "HVDLITE_OVERLAP", "tensors per batch", "4.00",
        "time communicating", "about 6\u202f0",
        "communication during the backward pass, 24 %", "communication after it, 6 %",
    ):  # fmt: skip
        assert said in text, said
    slow = [layer for index, layer in enumerate(LAYERS) if index % 4 >= 2]
    assert all(f"allreduce.{layer}" in text for layer in slow)
    assert "rank 2 on node2: " in " ".join(found.texts)


def test_the_page_asks_for_nothing_and_runs_nothing() -> None:
    text = page(facts_of(Imagined()), BEGAN)
    found = Parsed(text)
    names = {name for _, attrs in found.tags for name in attrs}
    assert not {tag for tag, _ in found.tags} & {"script", "img", "link", "iframe", "a", "object"}
    assert not [name for name in names if name.startswith("on") or name in ("src", "href")]
    assert "http" not in text.replace("http-equiv", "") and "url(" not in text
    assert "default-src 'none'; style-src 'unsafe-inline'" in text


def test_what_comes_from_the_job_is_escaped() -> None:
    history = History()
    for record in Imagined(hosts=(EVIL, "b"), fewer_from=0.5).records():
        record["heading"] = EVIL
        details = record["details"]
        details["tensors"][0]["name"] = EVIL
        details["ways"] = {EVIL: 1.0}
        details["versions"], details["knobs"] = {EVIL: EVIL}, {EVIL: EVIL}
        for rank in record["ranks"]:
            rank["counters"]["carried_by"] = {EVIL: {"allreduce": 1}}
            rank["counters"]["interfaces"] = {EVIL: {"sent": 5, "received": 5}}
        history.add(record)
    history.happened(BEGAN + 5, EVIL)
    text = page(history.facts(EVIL, JobEnd(1, EVIL), notes=[EVIL]), BEGAN)
    found = Parsed(text)
    assert "<script" not in text and "\x07" not in text
    assert text.count("&lt;script&gt;") >= 12
    assert not {tag for tag, _ in found.tags} & {"script"}
    plain = EVIL.replace("\x07", "")
    assert sum(plain in each for each in found.texts) >= 10, "it is shown as it is"


def test_what_turns_the_order_of_letters_is_left_out() -> None:
    assert words.escaped("a\u202eb\u2066c\u200f & d\u202fe") == "abc &amp; d\u202fe"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (Facts(), "The job was too short"),
        (facts_of(Imagined(seconds=0)), "4 ranks"),
        (facts_of(Imagined(details=False)), "Step time"),
        (facts_of(Imagined(ranks=1)), "1 rank,"),
        (History().facts("true", running=True), "still running"),
        (History().facts("true", JobEnd(1, "hvdliterun: no such file.")), "no such file."),
        (facts_of(Imagined(fewer_from=0.4)), "The ranks have changed: 4 → 3 (generation 2)"),
        (
            facts_of(Imagined(), end=JobEnd(137, "hvdliterun: rank 1 on a was killed.")),
            "status 137",
        ),
    ],
)
def test_a_page_of_a_job_that_is_different(facts: Facts, said: str) -> None:
    assert said in Parsed(page(facts, BEGAN)).text


def test_any_job_has_a_page_of_bounded_size() -> None:
    """A million steps of 512 ranks on 64 hosts, with long names."""
    names = [f"{layer}.{'x' * 200}" for layer in LAYERS]
    job = Imagined(
        ranks=512, seconds=100_000, every=500, waits={5: 0.4}, names=names,
        hosts=[f"host{n}.example.org" for n in range(64)], fewer_from=0.5,
    )  # fmt: skip
    facts = facts_of(job)
    assert facts.steps > 9e5
    text = page(facts, BEGAN)
    assert len(text) < 300_000
    assert "Of 511 ranks, these 64 wait least or most." in text


def test_every_class_has_a_style() -> None:
    text = page(facts_of(Imagined(waits={1: 0.3}, fewer_from=0.5), end=JobEnd(1, "x")), BEGAN)
    styled = set(re.findall(r"\.([a-z]\w*)", text[: text.index("</style>")]))
    used = {name for _, attrs in Parsed(text).tags for name in attrs.get("class", "").split()}
    assert used - styled <= {"name"} and len(used) > 25, used - styled


# --- pictures


def test_a_line_goes_through_its_points() -> None:
    line = Line("a", [(0, 0.05), (5, 0.1), (10, None), (15, 0.2), (20, None)], 1)
    found = Parsed(charts.lines([line], 20, 0.2, (1e3, "ms")))
    [path] = [attrs["d"] for attrs in found.of_class("k1")]
    # 0.2 s is at the top, because 200 ms is the last tick.
    assert path == "M0 75L250 50M750 0h2"
    assert [each for each in found.texts if each.strip()] == [
        "ms", "0", "50", "100", "150", "200", "a", "0 s", "5 s", "10 s", "15 s"
    ]  # fmt: skip


def test_the_first_steps_do_not_make_all_others_flat() -> None:
    history = History()
    for record in Imagined(ranks=2, seconds=600, step=0.1).records():
        if BEGAN < record["time"] < BEGAN + 30:
            for rank in record["ranks"]:
                rank["steps_per_second"] = 0.25
        history.add(record)
    found = Parsed(page(history.facts(), BEGAN))
    assert "Longer steps are cut off; the longest took 4.00 s." in found.text
    assert "200" in found.texts and "ms" in found.texts, "the axis is that of the other steps"
    [first, *_] = found.of_class("k1")
    assert re.match(r"M[\d.]+ 0L", first["d"]), "they reach the top"


def test_a_heat_map_has_a_piece_for_each_run_of_one_colour() -> None:
    rows = [("0", "rank 0", [0.0, 0.0, 0.4, None]), ("1", "rank 1", [0.4, 0.2, 0.2, 0.2])]
    found = Parsed(charts.heat_map(rows, 40, 0.4))
    paths = {attrs["class"]: attrs["d"] for tag, attrs in found.tags if tag == "path"}
    assert paths == {
        "h0": "M0 0H500v1H0z",
        "h4": "M250 1H1000v1H250z",
        "h7": "M500 0H750v1H500zM0 1H250v1H0z",
    }


def test_bars_are_as_long_as_their_share() -> None:
    found = Parsed(charts.bars([charts.Bar("a", 0.25, "25 %"), charts.Bar("b", 3.0, "300 %")]))
    assert [attrs["style"] for attrs in found.of_class("b1")] == ["width:25%", "width:100%"]


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (0.87, [0, 0.25, 0.5, 0.75]),
        (100, [0, 25, 50, 75, 100]),
        (7, [0, 2, 4, 6]),
        (1234, [0, 500, 1000]),
        (0, [0]),
    ],
)
def test_ticks_are_round(most: float, expected: list[float]) -> None:
    assert charts.value_ticks(most) == expected


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        (4, ["0 s", "1 s", "2 s", "3 s", "4 s"]),
        (300, ["0 min", "1 min", "2 min", "3 min", "4 min", "5 min"]),
        (5400, ["0 min", "15 min", "30 min", "45 min", "1:00 h", "1:15 h", "1:30 h"]),
        (864000, ["0 d", "2 d", "4 d", "6 d", "8 d", "10 d"]),
    ],
)
def test_times_are_round(seconds: float, texts: list[str]) -> None:
    assert [text for _, text in charts.time_ticks(seconds)] == texts


def test_of_many_ranks_few_lines_are_drawn() -> None:
    facts = facts_of(Imagined(ranks=40, waits={7: 0.3, 9: 0.1}))
    drawn = series.step_lines(facts)
    assert [line.label for line in drawn[:4]] == [
        "the fastest and the slowest rank of each moment",
        "the fastest and the slowest rank of each moment",
        "rank 7",
        "rank 9",
    ]
    assert len(drawn) == 4 and all(len(line.points) <= series.LINE_POINTS for line in drawn)
    assert None not in {value for line in drawn for _, value in line.points}, "without gaps"


def test_the_means_of_equal_times() -> None:
    facts = facts_of(Imagined(ranks=2, seconds=100, every=10))
    found = series.by_rank(facts, lambda point: point.memory, 2)
    # Samples of 10 s each, of which the first five are those up to 50 s.
    assert found[0] == pytest.approx([8.1e8 + 3e5, 8.1e8 + 8e5])


# --- words


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["python", "train.py"], "python train.py"),
        (["python", "/home/me/my/train.py"], "python train.py"),
        (["/usr/bin/python3", "-u", "train.py", "--token", "secret"], "python3 train.py …"),
        (["python", "-m", "package.train", "--password=x"], "python -m package.train …"),
        (["python", "-c", "print('secret')"], "python -c …"),
        (["env", "TOKEN=secret", "python", "t.py"], "python t.py"),
        (["TOKEN=secret"], ""),
        (["./train", "secret"], "train …"),
        (["python"], "python"),
        ([], ""),
    ],
)
def test_a_command_without_what_may_be_secret(command: list[str], shown: str) -> None:
    assert words.command(command) == shown


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (words.seconds(0.0123), "12.3 ms"), (words.seconds(2.5), "2.50 s"),
        (words.seconds(4e-7), "0.400 µs"), (words.seconds(None), "–"),
        (words.duration(59.5), "59.5 s"), (words.duration(3725), "1 h 02 min"),
        (words.duration(90061), "1 d 1 h"), (words.size(999), "999 B"),
        (words.size(1.5e6), "1.50 MB"), (words.size(25_557_032 * 4), "102 MB"),
        (words.count(1234567), "1\u202f234\u202f567"), (words.percent(0.314), "31 %"),
    ],
)  # fmt: skip
def test_numbers_for_people(shown: str, expected: str) -> None:
    assert shown == expected


def test_a_tensor_of_no_time_divides_by_nothing() -> None:
    facts = facts_of(Imagined(seconds=100))
    assert facts.details is not None
    facts.details.tensors[:] = [Tensor("a")]
    assert "Slowest tensors" in Parsed(page(facts, BEGAN)).text


def test_another_job_with_the_same_file_is_told_once(tmp_path: Path) -> None:
    path, said = str(tmp_path / "run.html"), []
    (tmp_path / "run.html").write_text("of an earlier job")
    ours = ReportFile(path, ["python", "train.py"], said.append)
    ours.write()
    ours.write()
    assert said == []
    theirs = ReportFile(path, ["python", "train.py"], said.append)
    for each in (theirs, ours, theirs, ours):
        each.write()
    assert said == [f"another job writes {path}, too: give each --report a file of its own."] * 2
