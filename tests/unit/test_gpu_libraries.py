"""Where NCCL's wheel is found, and that nothing is there is no error."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hvdlite import _core
from hvdlite.job import libraries


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages; there is also one that does not exist, and the current one."""
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "not there"), str(tmp_path)])
    return tmp_path


def test_the_folders_of_packages_are_told_and_not_looked_at(packages: Path) -> None:
    assert libraries.nccl_wheel() == os.pathsep.join([str(packages / "not there"), str(packages)])


def why_not(wheel: str) -> str:
    with pytest.raises(NotImplementedError) as caught:
        _core.find_nccl("", wheel)
    return str(caught.value)


def test_the_wheel_is_found_among_them(packages: Path) -> None:
    if "libnccl" in Path("/proc/self/maps").read_text():
        pytest.skip("NCCL is loaded in this process already, and that one is taken")
    library = packages / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    for other in (packages / "nvidia" / "cublas", packages / "nvidia" / "nccl" / "include"):
        other.mkdir(parents=True)
    assert str(library) not in why_not(libraries.nccl_wheel())
    library.parent.mkdir()
    library.write_text("no library")
    assert str(library) in why_not(libraries.nccl_wheel())
