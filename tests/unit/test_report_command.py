"""`hvdlite report`: files in, a page out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from report_jobs import Imagined
from test_timeline_merge import Recorded

from hvdlite.base.private_file import write_as_asked
from hvdlite.observe.report import timelines
from hvdlite.observe.timeline.reading import read
from hvdlite.tools.commands.cli import main


def metrics(folder: Path, job: Imagined) -> Path:
    path = folder / "run.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in job.records()))
    return path


def traces(folder: Path) -> list[Path]:
    """Two ranks and 20 steps of 100 ms, in which rank 0 waits 30 ms for rank 1."""
    ranks = [Recorded(rank, boot="x") for rank in (0, 1)]
    for step in range(20):
        at = 100_000.0 * step
        ranks[0].perform(step, at, at + 30_000, at + 50_000)
        ranks[1].perform(step, at + 30_000, at + 30_000, at + 50_000)
    paths = [folder / "t.json", folder / "t.rank1.json"]
    for path, rank in zip(paths, ranks, strict=True):
        path.write_text(rank.text())
    return paths


def test_a_page_of_a_file_of_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = metrics(tmp_path, Imagined(waits={2: 0.31}, moving=0.05))
    assert main(["report", str(path)]) == 0
    page = tmp_path / "run.html"
    assert page.stat().st_mode & 0o777 == 0o600
    assert "31\u00a0% of the time operations wait for rank 2." in page.read_text()
    out = capsys.readouterr().out
    assert out.startswith("31 % of the time operations wait for rank 2. Compare its data, ")
    assert out.endswith(f"{page}: 4 ranks. Open it in a browser.\n")


def test_a_page_of_timelines(tmp_path: Path) -> None:
    facts = timelines.facts([read(path.read_text()) for path in traces(tmp_path)])
    assert facts.waited_for == pytest.approx({0: 0.0, 1: 0.6})
    assert facts.steps == 19 and facts.totals[0].operations == 20
    assert [s.points[1].step for s in facts.samples] == pytest.approx([0.1] * 19)
    assert [s.points[0].waiting for s in facts.samples] == pytest.approx([0.3] * 19)
    assert facts.samples[0].points[1].waiting == 0
    assert facts.details is not None
    assert facts.details.seconds == pytest.approx(0.4) and facts.details.ways == {"net": 800}
    files = [str(tmp_path / name) for name in ("t.json", "t.rank1.json")]
    assert main(["report", *files, "-o", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text()
    assert "<td>0</td>" in text and "The ranks share one clock." in text


def test_a_timeline_tells_about_tensors_and_the_metrics_about_the_job(tmp_path: Path) -> None:
    path = metrics(tmp_path, Imagined(ranks=3))
    files = [str(path), *map(str, traces(tmp_path))]
    assert main(["report", *files]) == 0
    text = (tmp_path / "run.html").read_text()
    assert "3 ranks" in text and "What rank 0 saw of 20 operations." in text
    assert "those of the timeline" in text and "torch" in text


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "no line in it is one of --metrics-file"),
        ("hello\n", "no line in it is one of --metrics-file"),
        ("[1, 2", "this is not a timeline"),
        ("[]", "no rank's clock is in it"),
    ],
)
def test_files_that_are_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, sentence: str
) -> None:
    path = tmp_path / "x"
    path.write_text(content)
    assert main(["report", str(path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"hvdlite report: {path}: ") and sentence in err
    assert os.listdir(tmp_path) == ["x"]


def test_files_and_places_that_do_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path / "none")]) == 1
    assert "cannot read" in capsys.readouterr().err
    path = metrics(tmp_path, Imagined(seconds=20))
    assert main(["report", str(path), "-o", str(tmp_path / "no" / "x.html")]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert main(["report", str(path), "-o", "/dev/full"]) == 1
    assert "cannot write /dev/full: No space left on device." in capsys.readouterr().err
    assert main(["report", str(path), str(path)]) == 1
    assert "a page shows one job" in capsys.readouterr().err


def test_what_is_no_file_is_left_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device or address"):
        write_as_asked(str(pipe), b"nothing reads it")
    with pytest.raises(IsADirectoryError):
        write_as_asked(str(tmp_path), b"a folder")
    assert os.listdir(tmp_path) == ["pipe"]
    write_as_asked("/dev/null", b"gone")
    assert not Path("/dev/null").is_file()


def test_a_page_replaces_one_and_is_never_half_written(tmp_path: Path) -> None:
    page, link = tmp_path / "run.html", tmp_path / "link.html"
    page.write_text("old")
    page.chmod(0o644)
    link.symlink_to(page)
    write_as_asked(str(link), b"new")
    assert page.read_text() == "new" and link.is_symlink()
    assert page.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["link.html", "run.html"]
