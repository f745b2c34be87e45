"""What is said where the native core is missing: in a source tree that was not built, or for
another Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[2]


def _installed(folder: Path) -> None:
    """What `pip install .` leaves in a folder of sys.path."""
    shutil.copytree(ROOT / "hvdlite", folder / "hvdlite")


def _without_core(directory: Path, is_a_source_tree: bool) -> None:
    shutil.copytree(ROOT / "hvdlite", directory / "hvdlite", ignore=shutil.ignore_patterns("*.so"))
    if is_a_source_tree:
        (directory / "CMakeLists.txt").touch()


@pytest.mark.parametrize("is_a_source_tree", [True, False])
def test_a_missing_core_says_what_to_do(tmp_path: Path, is_a_source_tree: bool) -> None:
    _without_core(tmp_path, is_a_source_tree)
    # Without site-packages, where an installed hvdlite would help out.
    command = [sys.executable, "-S", "-c", "import hvdlite; hvdlite.init()"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: hvdlite's native core is missing: ")
    assert (
        f"no hvdlite is installed: `pip install {tmp_path}`"
        if is_a_source_tree
        else "hvdlite is not complete: install hvdlite anew"
    ) in last


_USE = "import hvdlite; hvdlite.init(); print(hvdlite.rank(), hvdlite._core.__file__)"


def _in_clone(clone: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-S", "-c", _USE]
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)


def test_a_clone_uses_the_core_that_is_installed(tmp_path: Path) -> None:
    _without_core(tmp_path / "clone", is_a_source_tree=True)
    _installed(tmp_path / "site")
    (tmp_path / "other").mkdir()
    done = _in_clone(tmp_path / "clone", tmp_path / "other", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"0 {tmp_path / 'site' / 'hvdlite'}{os.sep}_core.")
    # So does an environment that was installed by `pip install .`, in a clone that has a core for
    # another Python.
    (tmp_path / "clone" / "hvdlite" / "_core.cpython-27-x86_64-linux-gnu.so").touch()
    assert _in_clone(tmp_path / "clone", tmp_path / "site").returncode == 0


def test_a_python_without_a_compiled_module_calls_the_library(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "hvdlite", tmp_path / "hvdlite", ignore=shutil.ignore_patterns("_core.c*")
    )
    done = _in_clone(tmp_path, tmp_path, Path(numpy.__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"0 {tmp_path / 'hvdlite' / '_core.py'}\n"


@pytest.mark.parametrize("changed", ["_core.pyi", "base/knobs.py"])
def test_a_clone_does_not_use_a_core_of_other_sources(tmp_path: Path, changed: str) -> None:
    _without_core(tmp_path / "clone", is_a_source_tree=True)
    _installed(tmp_path / "site")
    with (tmp_path / "clone" / "hvdlite" / changed).open("a") as file:
        file.write("# a later version\n")
    done = _in_clone(tmp_path / "clone", tmp_path / "site")
    last = done.stderr.splitlines()[-1]
    assert last == (
        f"ImportError: hvdlite's native core is missing: {tmp_path / 'site' / 'hvdlite'} is "
        f"installed, but {tmp_path / 'clone' / 'hvdlite'} is another version of the sources: "
        f"`pip install {tmp_path / 'clone'}`, or work elsewhere"
    )


def test_the_check_of_an_installation_says_so_too(tmp_path: Path) -> None:
    _without_core(tmp_path, is_a_source_tree=True)
    # An environment that has numpy, and no installed hvdlite that would help out.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    for part in Path(numpy.__file__).parents[1].glob("numpy*"):
        (packages / part.name).symlink_to(part)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [tmp_path / "venv" / "bin" / "python", "-m", "hvdlite.launch", "--check-build"]
    done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    missing = "ImportError: hvdlite's native core is missing: "
    lines = done.stdout.splitlines()
    said = [line for line in lines if line.startswith("    [!] numpy ")]
    said += [line for line in lines[lines.index("Native core:") + 1 :] if line]
    assert len(said) == 2, done.stdout
    assert all(missing in line and f"`pip install {tmp_path}`" in line for line in said), said
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"),
    reason="this Python has a global interpreter lock: tests/versions/run python-3.14t has none",
)
def test_the_core_does_not_bring_the_interpreter_lock_back() -> None:
    use = "import sys, hvdlite; hvdlite.init(); print(sys._is_gil_enabled())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", use], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
