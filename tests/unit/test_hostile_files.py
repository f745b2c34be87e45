"""Files of other people, in which one place after the other is something else: each command makes
of them what it can, or says in one sentence why not."""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from report_jobs import Imagined
from test_bundle import part
from test_timeline_merge import Recorded

from hvdlite.base import untrusted
from hvdlite.tools.commands.cli import main

Run = Callable[[str], None]

# What stands in each place instead. (json.dumps writes the last two as NaN and Infinity.)
_OTHERS = [None, -1, 0, 10**400, "\u202e\x1b[2J", [[]], {}, {"x": []}, float("nan"), float("inf")]
_MOST_OF_A_LIST = 1
_VALUES = 4  # of these in each place
_PAIRS = 50  # files with two such places


def _places(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values; of a list, those of the first ones."""
    if above:
        yield above
    inner: Any = ()
    if isinstance(document, dict):
        inner = document.items()
    elif isinstance(document, list):
        inner = enumerate(document[:_MOST_OF_A_LIST])
    for key, value in inner:
        yield from _places(value, (*above, key))


def _with(document: Any, *changes: tuple[tuple[Any, ...], Any]) -> Any:
    changed = copy.deepcopy(document)
    for (*above, last), value in changes:
        inner = changed
        try:
            for key in above:
                inner = inner[key]
            if value is _OTHERS:
                del inner[last]
            else:
                inner[last] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):  # the other change has replaced it
            pass
    return changed


def _hostile(document: Any) -> Iterator[Any]:
    places = list(_places(document))
    values = [*_OTHERS, _OTHERS]  # the list itself: nothing is there
    dice = random.Random(1)
    for place in places:
        for value in dice.sample(values, _VALUES):
            yield _with(document, (place, value))
    for _ in range(_PAIRS):
        yield _with(document, *((dice.choice(places), dice.choice(values)) for _ in range(2)))


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `hvdlite WORDS`, which must say something and raise nothing."""

    def run_it(words: str) -> None:
        status = main(words.format(tmp_path).split())
        said = capsys.readouterr()
        assert status in (0, 1)
        assert bool(said.err) == bool(status) and said.err.count("\n") == status, said.err
        for text in (said.out, said.err):
            assert not {"\u202e", "\x1b"} & set(text), text

    return run_it


def _write(path: Path, *documents: Any) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in documents))


def test_a_report_of_hostile_metrics(tmp_path: Path, run: Run) -> None:
    taken = {"host": "a", "ranks": 2, "cores": 4, "each": 0.5, "others": 3.0}
    job = Imagined(ranks=2, seconds=40, names=("a", "b", "c"), taken=taken, fewer_from=0.9)
    before, *_, hostile, last = job.records()
    for record in _hostile(hostile):
        _write(tmp_path / "run.jsonl", before, record, last)
        run("report {}/run.jsonl")
    page = (tmp_path / "run.html").read_text()
    assert "\u202e" not in page


def test_a_merge_and_a_report_of_hostile_timelines(tmp_path: Path, run: Run) -> None:
    good, bad = Recorded(0, boot="a"), Recorded(1, boot="b")
    for step in range(2):
        good.perform(step, 1.0 + 100 * step, 2.0 + 100 * step, 3.0 + 100 * step)
        bad.perform(step, 1.5 + 100 * step, 2.0 + 100 * step, 3.0 + 100 * step)
    (tmp_path / "t.json").write_text(good.text())
    events = json.loads(bad.text())
    kinds = {(event["ph"], "args" in event): number for number, event in enumerate(events)}
    assert len(kinds) == 5
    for which in kinds.values():
        for event in _hostile(events[which]):
            (tmp_path / "t.rank1.json").write_text(
                json.dumps([*events[:which], event, *events[which + 1 :]])
            )
            run("timeline merge {}/t.json")
            run("report {0}/t.json {0}/t.rank1.json")


def test_a_merge_of_hostile_profiles(tmp_path: Path, run: Run) -> None:
    rank = Recorded(0, boot="a")
    rank.perform(0, 1.0, 2.0, 3.0)
    (tmp_path / "t.json").write_text(rank.text())
    profile = {
        "baseTimeNanoseconds": 1_600_000_000_000_000_000,
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "python"}},
            {"ph": "X", "name": "aten::mm", "pid": 7, "tid": 5, "ts": 150.0, "dur": 3},
        ],
    }
    for document in _hostile(profile):
        _write(tmp_path / "profile.json", document)
        run("timeline merge {0}/t.json --profile 0={0}/profile.json")


def test_explain_of_a_hostile_bundle(tmp_path: Path, run: Run) -> None:
    (tmp_path / "stall.rank0.json").write_bytes(part(0).encode())
    for document in _hostile(json.loads(part(1).encode())):
        _write(tmp_path / "stall.rank1.json", document)
        run("explain --stacks {}")


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000, "\x00", "\ufeff[]", "[1e999]",
     '[{"name": ' + "1" * 5000 + "}]"],
    ids=range(7),
)  # fmt: skip
def test_what_is_no_json_at_all(text: str, tmp_path: Path, run: Run) -> None:
    for name in ("t.json", "run.jsonl", "stall.rank0.json"):
        (tmp_path / name).write_text(text)
    run("timeline merge {}/t.json")
    run("report {}/t.json")
    run("report {}/run.jsonl")
    run("explain {}")
    rank = Recorded(0, boot="a")
    rank.perform(0, 1.0, 2.0, 3.0)
    (tmp_path / "good.json").write_text(rank.text())
    run("timeline merge {0}/good.json --profile 0={0}/t.json")


def test_a_small_file_does_not_unpack_to_a_large_one(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted, "_UNPACKED_BYTES", 1 << 20)
    rank = Recorded(0, boot="a")
    rank.perform(0, 1.0, 2.0, 3.0)
    (tmp_path / "t.json").write_text(rank.text())
    bomb = gzip.compress(b" " * (64 << 20))
    (tmp_path / "bomb.json.gz").write_bytes(bomb)
    assert main(f"timeline merge {tmp_path}/t.json --profile 0={tmp_path}/bomb.json.gz".split())
    assert "it unpacks to more than" in capsys.readouterr().err
    for torn in (b"", bomb[:100], b"\x1f\x8b" + os.urandom(100)):
        (tmp_path / "bomb.json.gz").write_bytes(torn)
        run("timeline merge {0}/t.json --profile 0={0}/bomb.json.gz")


@pytest.mark.parametrize(
    ("command", "output"), [("timeline merge", "t.merged.json"), ("report", "t.html")]
)
def test_a_link_at_the_place_that_nobody_has_named_is_replaced(
    command: str, output: str, tmp_path: Path, run: Run
) -> None:
    rank = Recorded(0, boot="a")
    for step in range(2):
        rank.perform(step, 1.0 + 100 * step, 2.0 + 100 * step, 3.0 + 100 * step)
    (tmp_path / "t.json").write_text(rank.text())
    mine = tmp_path / "mine"
    mine.write_text("precious")
    mine.chmod(0o666)
    made = tmp_path / output
    made.symlink_to(mine)
    run(f"{command} {{}}/t.json")
    assert mine.read_text() == "precious"
    assert not made.is_symlink() and made.stat().st_mode & 0o777 == 0o600
    named = tmp_path / "named"  # a user who names a link means the file behind it
    named.symlink_to(mine)
    run(f"{command} {{0}}/t.json -o {{0}}/named")
    assert named.is_symlink() and mine.read_text() != "precious"
    assert mine.stat().st_mode & 0o777 == 0o600
    run(f"{command} {{0}}/t.json -o /dev/null")
    assert not Path("/dev/null").is_file()
