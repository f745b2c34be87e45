"""What is said where the native core is missing: in a source tree that was not built, or for
another Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("is_a_source_tree", [True, False])
def test_a_missing_core_says_what_to_do(tmp_path: Path, is_a_source_tree: bool) -> None:
    shutil.copytree(ROOT / "hvdlite", tmp_path / "hvdlite", ignore=shutil.ignore_patterns("*.so"))
    if is_a_source_tree:
        (tmp_path / "CMakeLists.txt").touch()
    # Without site-packages, where an installed hvdlite would help out.
    command = [sys.executable, "-S", "-c", "import hvdlite; hvdlite.init()"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: hvdlite's native core is missing: ")
    assert (
        f"`pip install -e {tmp_path}`"
        if is_a_source_tree
        else "`pip install hvdlite` with this Python"
    ) in last
