"""README.md of each folder of csrc is its map: START HERE, and a line for each of its rooms. A room
is what the files of one stem say together (ring.cc; turn.h and turn.cc), or a sub-folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
FOLDERS = [CSRC, *sorted(p for p in CSRC.rglob("*") if p.is_dir() and p.name != "__pycache__")]


def rooms(folder: Path) -> list[str]:
    files = {p.name.split(".")[0] for p in folder.iterdir() if p.is_file()} - {"README"}
    folders = {p.name for p in folder.iterdir() if p in FOLDERS}
    return sorted(files | folders)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_folder_has_a_map_of_its_rooms(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    lines = re.findall(r"^    (\S+)  +(\S.*)$", text, re.M)
    assert sorted(name for name, _ in lines) == rooms(folder)
    assert any(about.startswith("START HERE") for _, about in lines)
    assert text.startswith(f"# {folder.relative_to(ROOT)}\n")
