"""scripts/quickstart: what it installs, and what it shows meanwhile. pip itself is not called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

QUICKSTART = Path(__file__).resolve().parents[2] / "scripts" / "quickstart"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an environment's pip and hvdliterun write what they were asked for."""
    programs, log = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    for name, otherwise in (("python", f'exec {sys.executable} "$@"'), ("hvdliterun", "")):
        program = programs / name
        program.write_text(
            f'#!/bin/sh\ncase "{name} $*" in\n'
            f'"python -m pip "* | hvdliterun*) echo "{name} $*" >> {log} ;;\n'
            f"*) {otherwise} ;;\nesac\n"
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    return log


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_the_clone_is_installed_in_place_and_pip_is_quiet_only_where_no_person_watches(
    calls: Path, on_a_terminal: bool
) -> None:
    program = "import pty, sys; sys.exit(pty.spawn(sys.argv[1]) >> 8)"
    command = [sys.executable, "-c", program, QUICKSTART] if on_a_terminal else [QUICKSTART]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "building and installing hvdlite" in done.stdout, done.stdout
    (hvdlites,) = (call for call in calls.read_text().splitlines() if call.endswith(" -e ."))
    assert ("--quiet" in hvdlites) != on_a_terminal, hvdlites
    assert calls.read_text().splitlines()[-1].startswith("hvdliterun -np 2 python examples/")
