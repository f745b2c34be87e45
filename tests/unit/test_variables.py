"""Variables of the environment: which ones mean something, and what is said of others."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from hvdlite.base import variables

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("HVDLITE_FUSION_TRESHOLD", "did you mean HVDLITE_FUSION_THRESHOLD?"),
        ("HVDLITE_STALL_DUMPS", "did you mean HVDLITE_STALL_DUMP?"),
        ("HVDLITE_ALLOW_SINGELTON", "did you mean HVDLITE_ALLOW_SINGLETON?"),
        ("HVDLITE_SECRETFILE", "did you mean HVDLITE_SECRET_FILE?"),
        ("HVDLITE_MY_OWN", "docs/reference/knobs.md lists all knobs."),
    ],
)
def test_a_name_that_means_nothing_is_told_with_the_nearest_one(name: str, advice: str) -> None:
    said = f"{name} is set, but hvdlite knows no such variable: {advice}"
    assert variables.warnings({name: "1", "HVDLITE_RANK": "0", "PATH": "x"}) == [said]


def test_all_names_are_told_in_order() -> None:
    said = variables.warnings(["HVDLITE_Z9", "HVDLITE_A9", "HOROVOD_WHATEVER", "HVDLITE"])
    assert [sentence.split()[0] for sentence in said] == ["HVDLITE_A9", "HVDLITE_Z9"]


def test_every_name_in_the_code_means_something() -> None:
    """So that no warning is about what hvdlite itself reads or sets."""
    found = {}
    files = [*(ROOT / "hvdlite").rglob("*.py"), ROOT / "setup.py"]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and re.fullmatch(r"HVDLITE_[A-Z][A-Z_]*[A-Z]", text):
                found[text] = path.name
    for path in [*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        for name in re.findall(r"environ(?:\.get\(|\[)\"(HVDLITE_[A-Z_]+)\"", path.read_text()):
            found[name] = path.name
    build = [ROOT / "CMakeLists.txt", ROOT / ".ci" / "run", *(ROOT / "csrc").rglob("*.cmake")]
    for path in [*build, *(each for each in (ROOT / "scripts").iterdir() if each.is_file())]:
        for name in re.findall(r"(?:\$ENV\{|\$\{?|export )(HVDLITE_[A-Z_]+)", path.read_text()):
            found[name] = path.name
    assert len(found) > 20
    assert {name: where for name, where in found.items() if not variables.is_known(name)} == {}
