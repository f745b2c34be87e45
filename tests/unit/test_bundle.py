"""A bundle of a stuck or failed job: its files, and what `hvdlite explain` says about them."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from hvdlite.base import bundle
from hvdlite.base.bundle import Part, Stack
from hvdlite.commands.cli import main
from hvdlite.commands.explain import explain

VERDICT = "rank 2 has not asked for allreduce 'a' for 60 s: it is in train.py:88 (evaluate)"


def part(rank: int, place: str = "train.py:61 (step)", event: str = "stall") -> Part:
    stacks = [
        Stack("MainThread", True, [f'  File "/home/me/{place}"\n    step()']),
        Stack("pin memory", False, ['  File "/lib/queue.py"\n    get()']),
    ]
    operation = {"name": "allreduce.b", "failed": False}
    return Part(
        event, VERDICT, rank, 4, "node1", 4000 + rank, "2026-11-25T21:00:00.000+00:00", place,
        stacks, [operation], {"operations": 9}, {"HVDLITE_X": "1"}, {"stall_check": 60},
        {"hvdlite": "0.1.0", "python": "3.11.2"},
    )  # fmt: skip


def text(*parts: Part, stacks: bool = False) -> str:
    return "\n".join(explain(parts, stacks))


def test_a_part_is_read_as_it_was_written() -> None:
    assert bundle.decode(part(1).encode()) == part(1)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"format": 2}', b'{"format": 1, "event": "stall"}', b"\xff"]
)
def test_what_is_no_part_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        bundle.decode(data)


def test_the_verdict_comes_first_and_then_where_the_ranks_are() -> None:
    lines = text(part(0), part(1), part(2, "train.py:88 (evaluate)"), part(3)).splitlines()
    assert lines[0] == VERDICT
    assert "  3 ranks (0, 1, 3) in train.py:61 (step)" in lines
    assert "  rank 2 in train.py:88 (evaluate)" in lines
    assert "rank 2 on node1, process 4002: hvdlite 0.1.0, python 3.11.2" in lines
    assert "  9 operations; allreduce.b ended last" in lines
    assert not any("pin memory" in line for line in lines)
    assert "  pin memory:" in text(part(0), stacks=True).splitlines()


def test_ranks_without_a_file_are_named() -> None:
    assert "  rank 2: no file (dead, stopped, or held up in C code)" in text(
        part(0), part(1), part(3)
    )


def test_a_stall_explains_the_failure_behind_it() -> None:
    failure = replace(part(0, event="failure"), verdict="the job has been shut down")
    lines = text(part(0), failure).splitlines()
    assert lines[0] == VERDICT and "when operations stalled" in lines[2]


def test_a_job_that_was_only_asked_has_no_verdict() -> None:
    asked = replace(part(0, event="asked"), verdict="")
    assert text(asked).startswith("The job was asked, and there is no verdict")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / bundle.folder_name("4f2a")
    folder.mkdir()
    for rank in range(3):
        (folder / part(rank).file_name).write_bytes(part(rank).encode())
    return folder


def test_the_command_reads_a_bundle_or_the_newest_in_a_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = folder.parent / bundle.folder_name("old")
    older.mkdir()
    os.utime(older, (1, 1))
    for given in (folder, folder.parent):
        assert main(["explain", str(given)]) == 0
        assert VERDICT in capsys.readouterr().out


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "stall.rank3.json").write_text("{")
    assert main(["explain", str(folder)]) == 0
    said = capsys.readouterr().out
    assert VERDICT in said and "stall.rank3.json cannot be read" in said


def test_a_folder_without_a_bundle_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(tmp_path)]) == 1
    assert f"there is no bundle in {tmp_path}" in capsys.readouterr().err
    assert main(["explain", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_the_environment_is_shown_without_secrets() -> None:
    environ = {
        "HVDLITE_RANK": "1", "OMP_NUM_THREADS": "2", "HVDLITE_SECRET": "77",
        "HVDLITE_MEMBER_TOKEN": "88", "NCCL_PASSWORD": "x", "HOME": "/root", "AWS_REGION": "here",
    }  # fmt: skip
    assert bundle.shown_environment(environ) == {"HVDLITE_RANK": "1", "OMP_NUM_THREADS": "2"}


# --- what a rank writes


@pytest.fixture
def write() -> object:
    pytest.importorskip("hvdlite._core", reason="the native core is not built here")
    from hvdlite.job import bundle as writing

    return writing


def test_a_part_is_readable_by_its_owner_alone(write: object, tmp_path: Path) -> None:
    from hvdlite.job import bundle as writing

    folder = tmp_path / "a" / "b"
    before = os.umask(0)
    try:
        writing.Writer(str(folder), 1, 2).write("stall", VERDICT, writing.look())
    finally:
        os.umask(before)
    (path,) = folder.iterdir()
    assert path.name == "stall.rank1.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    found, complaints = bundle.read(str(folder))
    assert [each.verdict for each in found] == [VERDICT] and not complaints
    assert "test_bundle.py" in found[0].place


def test_a_full_disk_costs_one_sentence(
    write: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from hvdlite.job import bundle as writing

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writing.os, "write", full)
    writing.Writer(str(tmp_path), 0, 2).write("stall", VERDICT, writing.look())
    (said,) = caplog.messages
    assert said == (
        f"This rank's part of the bundle cannot be written to {tmp_path}: No space left on device. "
        "The job goes on."
    )
    assert list(tmp_path.iterdir()) == []


def test_the_ranks_of_a_job_agree_about_its_name(write: object) -> None:
    from hvdlite.job.bundle import job_name

    here, there = (("127.0.0.1", 4000), b"7" * 32), (("10.0.0.1", 4000), b"7" * 32)
    assert job_name(here, "") == job_name(there, "")
    another = (("127.0.0.1", 4000), b"8" * 32)
    names = {job_name(here, ""), job_name(another, ""), job_name(here, "g1/"), job_name(None, "")}
    assert len(names) == 4
