"""scripts/wheels: which Pythons get a module, and what is believed of a wheel."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import ModuleType

import loaded_script
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def wheels() -> ModuleType:
    return loaded_script.load(ROOT / "scripts" / "wheels")


def test_a_modules_name_is_the_one_that_its_python_looks_for(wheels: ModuleType) -> None:
    free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED")
    version = sysconfig.get_python_version() + ("t" if free_threaded else "")
    (mine,) = [each for each in wheels.pythons([sys.executable]) if each.version == version]
    machine = sysconfig.get_platform().rpartition("-")[2]
    assert mine.suffix(machine) == sysconfig.get_config_var("EXT_SUFFIX")
    assert mine.headers == Path(sysconfig.get_path("include"))


def test_headers_of_a_python_that_is_not_here_are_enough(
    wheels: ModuleType, tmp_path: Path
) -> None:
    there = {each.version: each for each in wheels.pythons([f"3.15t={tmp_path}"])}
    assert there["3.15t"] == wheels.Python("3.15t", None, tmp_path)
    assert there["3.15t"].suffix("aarch64") == ".cpython-315t-aarch64-linux-gnu.so"
    assert [*there] == [version for version in wheels.SUPPORTED if version in there]


def test_the_oldest_python_is_the_one_that_the_wheel_demands(wheels: ModuleType) -> None:
    demanded = re.search(r'requires-python = ">=(.+)"', (ROOT / "pyproject.toml").read_text())
    assert demanded and wheels.SUPPORTED[0] == demanded[1]


@pytest.mark.parametrize(
    ("tag", "good"),
    [("manylinux_2_28_x86_64", True), ("manylinux_2_17_x86_64", True),
     ("manylinux_2_34_x86_64", False), ("manylinux_3_0_x86_64", False),
     ("manylinux_2_28_aarch64", False), ("linux_x86_64", False)],
)  # fmt: skip
def test_a_wheel_keeps_what_its_name_promises(
    wheels: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    tag: str,
    good: bool,
) -> None:
    shown = f'x.whl is consistent with\nthe following platform tag:\n"{tag}".\n'
    monkeypatch.setattr(wheels, "run", lambda *command, **more: shown)
    monkeypatch.setattr(wheels, "tool", lambda *names: Path(sys.executable))
    wheel = tmp_path / "hvdlite-1-py3-none-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("hvdlite/_core.cpython-311-x86_64-linux-gnu.so", b"")
        archive.writestr("hvdlite/_core.py", b"")
    if good:
        wheels.audit(wheel, "x86_64")
        assert ", 1 modules" in capsys.readouterr().out
    else:
        with pytest.raises(SystemExit, match="does not run where manylinux_2.28"):
            wheels.audit(wheel, "x86_64")


def test_the_bill_of_materials_names_what_is_compiled_in(
    wheels: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(wheels, "_installed_version", lambda *names: "9.9")
    path = wheels.write_bill(tmp_path / "hvdlite")
    bill = json.loads(path.read_text())
    assert bill["bomFormat"] == "CycloneDX" and bill["metadata"]["component"]["name"] == "hvdlite"
    names = {component["name"] for component in bill["components"]}
    assert {"pybind11", "libc++ of zig"} <= names
    (edges,) = bill["dependencies"]
    assert set(edges["dependsOn"]) == names
