"""What `--check-build -v` says about the way of tensors, and about MPI."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hvdlite.launch import check_build


def test_the_way_of_each_kind_of_job_is_tried_and_said() -> None:
    pytest.importorskip("hvdlite._core", reason="the native core is not built here")
    found = list(check_build.carriers())
    assert found[0] == (True, "on one host: shm: all members are on one host")
    there, text = found[1]
    assert there and text.startswith("on two hosts (pretended): net"), text


def test_what_keeps_mpi_away_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mpi4py.py").write_text("raise ModuleNotFoundError(\"No module named 'mpi4py'\")")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    ((there, text),) = check_build.mpi()
    assert not there and "pip install '.[mpi]'" in text


@pytest.mark.parametrize("abi", ["openmpi", "mpich"])
def test_the_mpi_that_is_found_is_described(abi: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    monkeypatch.setenv("MPI4PY_MPIABI", abi)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{sys.prefix}/lib")
    for name in ("OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX"):
        monkeypatch.setenv(name, sys.prefix)
    said = list(check_build.mpi())
    if not said[0][0]:
        pytest.skip(f"there is no {abi} here: {said[0][1]}")
    name, threads, cuda = (text for _, text in said)
    assert name.startswith("Open MPI" if abi == "openmpi" else "MPICH")
    assert threads == "threads: MPI_THREAD_MULTIPLE"
    assert "CUDA-aware" in cuda


def test_a_rank_is_killed_and_the_job_goes_on() -> None:
    pytest.importorskip("hvdlite._core", reason="the native core is not built here")
    (found,) = (each for each in check_build.FRAMEWORKS if each.title.startswith("elastic"))
    flags = ["-H", "localhost:2", "--gloo", *found.flags]
    assert check_build.two_ranks(flags, found.program).problem == ""
    stays = found.program.replace("member() == 2", "member() == 9")
    assert check_build.two_ranks(flags, stays).problem, "nobody has died"
