"""scripts/quickstart: what it installs, and what it shows meanwhile. Neither pip nor the compiler
is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "scripts" / "quickstart"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an environment's programs write what they were asked for."""
    programs, log = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    for name, otherwise in (("python", f'exec {sys.executable} "$@"'), ("hvdliterun", "")):
        program = programs / name
        program.write_text(
            f'#!/bin/sh\ncase "{name} $*" in\n'
            f'"python -m pip "* | hvdliterun*) echo "{name} $*" >> {log} ;;\n'
            f'"python setup.py "*) echo "{name} $*" >> {log}; echo "[1/44] Building" ;;\n'
            f"*) {otherwise} ;;\nesac\n"
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    monkeypatch.delenv("HVDLITE_SYSTEM_PACKAGES", raising=False)
    return log


def test_the_clone_is_installed_in_place_and_the_compilers_progress_is_seen(calls: Path) -> None:
    done = subprocess.run([QUICKSTART], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[1/44] Building" in done.stdout
    said = calls.read_text().splitlines()
    pip, (native,) = [s for s in said if " pip " in s], [s for s in said if "setup.py" in s]
    assert native.endswith(" build_ext --inplace")
    # What is fetched says nothing, so that progress stays in sight.
    assert all("--quiet" in call for call in pip) and any("scikit-learn" in call for call in pip)
    assert said.index(native) < said.index(pip[-1]) and pip[-1].endswith(" -e .")
    assert said[-1].startswith("hvdliterun -np 2 python examples/")


def test_without_a_compiler_the_last_line_says_what_to_install(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tools))
    done = subprocess.run([QUICKSTART], capture_output=True, text=True)
    assert done.returncode == 1 and not calls.exists()
    assert "apt-get install g++" in done.stderr.splitlines()[-1], done.stderr


def test_a_build_without_a_compiler_says_what_to_install_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", tmp_path / "lib"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith("hvdlite needs a C++ compiler, and there is no c++ or g++ or clang++: ")
    assert "apt-get install g++" in said
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "there is no no-such-compiler: " in done.stderr.splitlines()[-1], done.stderr
