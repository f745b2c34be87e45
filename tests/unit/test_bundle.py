"""A bundle of a stuck or failed job: its files, and what `hvdlite explain` says about them."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from hvdlite.base import bundle
from hvdlite.base.bundle import BundlePart, Stack
from hvdlite.tools.commands.cli import main
from hvdlite.tools.commands.explain import explain

VERDICT = "rank 2 has not asked for allreduce 'a' for 60 s: it is in train.py:88 (evaluate)"


def part(rank: int, place: str = "train.py:61 (step)", event: str = "stall") -> BundlePart:
    stacks = [
        Stack("MainThread", True, [f'  File "/home/me/{place}"\n    step()']),
        Stack("pin memory", False, ['  File "/lib/queue.py"\n    get()']),
    ]
    operation = {"name": "allreduce.b", "failed": False}
    return BundlePart(
        event, VERDICT, rank, 4, "node1", 4000 + rank, "2026-11-25T21:00:00.000+00:00", place,
        stacks, [operation], {"operations": 9}, {"HVDLITE_X": "1"}, {"stall_check": 60},
        {"hvdlite": "0.1.0", "python": "3.11.2"},
    )  # fmt: skip


def text(*parts: BundlePart, stacks: bool = False) -> str:
    return "\n".join(explain(parts, stacks))


def test_a_part_is_read_as_it_was_written() -> None:
    assert bundle.decode(part(1).encode()) == part(1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": 2}',
        b'{"format": 1, "event": "stall"}',
        b"\xff",
        b"[" * 100_000,
        b'{"format": ' * 100_000,
        *(
            replace(part(0), **{name: value}).encode()
            for name, value in {
                "event": "other",
                "verdict": 7,
                "rank": "0",
                "size": 10**9,
                "host": ["a"],
                "place": None,
                "at": {},
                "stacks": [Stack("MainThread", True, [5])],  # type: ignore[list-item]
                "operations": ["allreduce"],
                "counters": [],
                "versions": "1",
            }.items()
        ),
        part(0).encode().replace(b'"stacks": [', b'"stacks": [7, '),
        part(0).encode().replace(b'"stacks": [', b'"stacks": 7, "x": ['),
        part(0).encode().replace(b'"name": "allreduce.b"', b'"name": []'),
        part(3).encode().replace(b'"size": 4', b'"size": 3'),
        part(0).encode().replace(b'"pid": 4000', b'"pid": Infinity'),
    ],
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


def test_a_bundle_does_not_write_to_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\x1b]0;mine\x07\u202e\r"
    operation = {"name": evil, "failed": False}
    stack = Stack(evil, True, [f"{evil}\n\t{evil}"])
    hostile = replace(
        part(3), verdict=evil, host=evil, place=evil, at=evil, stacks=[stack],
        operations=[operation], counters={"operations": evil}, versions={evil: evil},
    )  # fmt: skip
    (folder / hostile.file_name).write_bytes(hostile.encode())
    (folder / "stall.rank0.json").write_bytes(hostile.encode().replace(b'"rank": 3', b'"rank": 0'))
    (folder.parent / f"hvdlite-{evil}").mkdir()
    os.utime(folder.parent / f"hvdlite-{evil}", (1, 1))
    assert main(["explain", "--stacks", str(folder.parent)]) == 0
    assert main(["explain", str(folder.parent / f"hvdlite-{evil}")]) == 1
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert "\\x1b[2J" in text
        assert not [c for c in text if c != "\n" and not c.isprintable()], text


def test_what_is_no_file_is_not_waited_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(folder / "stall.rank3.json")
    os.truncate(folder / "stall.rank0.json", 0)
    with open(folder / "stall.rank0.json", "r+b") as large:
        large.truncate(1 << 40)
    (folder / "stall.rank2.json").unlink()
    (folder / "stall.rank2.json").symlink_to("/dev/zero")
    assert main(["explain", str(folder)]) == 0
    said = capsys.readouterr().out
    assert VERDICT in said
    assert "stall.rank3.json cannot be read: it is not a file" in said
    assert "stall.rank2.json cannot be read: it is not a file" in said
    assert "stall.rank0.json cannot be read: it is larger than " in said


def test_a_folder_without_a_bundle_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(tmp_path)]) == 1
    assert f"there is no bundle in {tmp_path}" in capsys.readouterr().err
    assert main(["explain", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err


SHOWN = {
    "HVDLITE_RANK": "1", "HVDLITE_STALL_DUMP": "dumps", "HOROVOD_FUSION_THRESHOLD": "0",
    "OMP_NUM_THREADS": "2", "NCCL_DEBUG": "INFO", "NCCL_SOCKET_IFNAME": "eth0",
    "CUDA_VISIBLE_DEVICES": "0,1", "SLURM_PROCID": "1", "OMPI_COMM_WORLD_RANK": "1",
    "PYTHONPATH": "/home/me", "LD_LIBRARY_PATH": "/usr/local/cuda", "TF_USE_LEGACY_KERAS": "1",
    "XLA_FLAGS": "--xla_dump_to=x", "MASTER_ADDR": "node1",
}  # fmt: skip


def test_the_environment_is_shown_without_secrets() -> None:
    hidden = {
        # Names that sound like secrets, and names that do not.
        "HVDLITE_SECRET": "77", "HVDLITE_MEMBER_TOKEN": "88", "NCCL_PASSWORD": "x",
        "SLURM_JWT": "a.b.c", "OMPI_COOKIE": "x", "SLURM_STEP_CRED": "x",
        "TORCH_HUB_BEARER": "x", "HVDLITE_MINE": "x", "PMIX_SECURITY_MODE": "x",
        "HOME": "/root", "AWS_REGION": "here",
        # Values that are secrets under names that are not.
        "NCCL_NET": "eyJhbGciOiJIUzI1NiJ9.e30.x", "NCCL_TOPO_FILE": "https://me:pw@host/topo.xml",
        "HVDLITE_HOSTFILE": "x", "HVDLITE_AUTOTUNE_LOG": "s3://token@bucket/log",
    }  # fmt: skip
    assert bundle.shown_environment({**SHOWN, **hidden}) == dict(sorted(SHOWN.items()))


def test_a_knobs_value_may_be_a_secret_too() -> None:
    knobs = {"autotune_log": "https://me:pw@host/log", "cycle_time": 1.0, "log_level": "info"}
    assert bundle.without_secrets(knobs) == {"cycle_time": 1.0, "log_level": "info"}


# --- what a rank writes


@pytest.fixture
def write() -> object:
    pytest.importorskip("hvdlite._core", reason="the native core is not built here")
    from hvdlite.job import where

    return where


def test_a_part_is_readable_by_its_owner_alone(write: object, tmp_path: Path) -> None:
    from hvdlite.job import where

    folder = tmp_path / "a" / "b"
    before = os.umask(0)
    try:
        where.BundleWriter(str(folder), 1, 2).write("stall", VERDICT, where._look())
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
    from hvdlite.job import where

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(where.os, "write", full)
    where.BundleWriter(str(tmp_path), 0, 2).write("stall", VERDICT, where._look())
    (said,) = caplog.messages
    assert said == (
        f"This rank's part of the bundle cannot be written to {tmp_path}: No space left on device. "
        "The job goes on."
    )
    assert list(tmp_path.iterdir()) == []


def test_the_ranks_of_a_job_agree_about_its_name(write: object) -> None:
    from hvdlite.job.where import bundle_name

    here, there = (("127.0.0.1", 4000), b"7" * 32), (("10.0.0.1", 4000), b"7" * 32)
    assert bundle_name(here, "") == bundle_name(there, "")
    another = (("127.0.0.1", 4000), b"8" * 32)
    names = {
        bundle_name(here, ""),
        bundle_name(another, ""),
        bundle_name(here, "g1/"),
        bundle_name(None, ""),
    }
    assert len(names) == 4
