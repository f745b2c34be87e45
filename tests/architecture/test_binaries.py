"""What was built: one binary serves every version of every framework, so none of theirs may be in
it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hvdlite

LIBRARIES = sorted(Path(hvdlite.__file__).parent.glob("*.so"))

needs_binutils = pytest.mark.skipif(
    shutil.which("nm") is None, reason="nm and readelf are not installed (binutils)"
)


def test_the_libraries_are_there() -> None:
    names = {path.name.partition(".")[0] for path in LIBRARIES}
    assert {"_core", "libhvdlite", "libhvdlite_tensorflow"} <= names


@needs_binutils
@pytest.mark.parametrize("path", LIBRARIES, ids=lambda p: p.name)
def test_no_symbol_of_a_framework(path: Path) -> None:
    symbols = subprocess.run(["nm", "-DC", path], capture_output=True, text=True, check=True).stdout
    assert not re.findall(r"(?:tensorflow|tsl|absl|xla|at|c10|torch)::\S+|\bTF_\w+", symbols)


@needs_binutils
@pytest.mark.parametrize("path", LIBRARIES, ids=lambda p: p.name)
def test_no_library_of_a_framework(path: Path) -> None:
    shown = subprocess.run(
        ["readelf", "-dW", path], capture_output=True, text=True, check=True
    ).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+?)\]", shown)
    assert needed and not [
        n for n in needed if re.search("tensorflow|torch|jax|xla|python|mpi|nccl|cuda", n)
    ]


@needs_binutils
def test_only_the_core_offers_the_c_interface() -> None:
    for path in LIBRARIES:
        shown = subprocess.run(
            ["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True
        ).stdout
        ours = set(re.findall(r" T (hvdlite_\w+)", shown))
        if path.name == "libhvdlite.so":
            assert {"hvdlite_init", "hvdlite_submit", "hvdlite_submit_then"} <= ours
        else:
            assert all(name.startswith(path.stem.removeprefix("lib")) for name in ours), ours


def test_the_kernels_say_what_is_missing_where_tensorflow_is_not_loaded() -> None:
    program = (
        "import ctypes, hvdlite, pathlib\n"
        "library = ctypes.CDLL(str(pathlib.Path(hvdlite.__file__).parent / "
        "'libhvdlite_tensorflow.so'))\n"
        "library.hvdlite_tensorflow_problem.restype = ctypes.c_char_p\n"
        "print(library.hvdlite_tensorflow_problem().decode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "TensorFlow is not loaded" in done.stdout
