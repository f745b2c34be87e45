"""tests/gpu/run and benchmarks/gpu/run, which do nothing where there is no GPU, and say so; and how
GPU kernels are compiled."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from machine import within
from waiting import wait_until

from hvdlite import _core

ROOT = Path(__file__).parents[2]
COMPILE = ROOT / "csrc" / "kernels" / "cuda" / "compile.py"


@pytest.mark.parametrize("script", ["tests/gpu/run", "benchmarks/gpu/run"])
def test_without_a_gpu_one_sentence_and_an_exit_code_of_its_own(
    script: str, tmp_path: Path
) -> None:
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OUT": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(ROOT / script)],
        capture_output=True,
        text=True,
        env=hidden,
        timeout=within(60),
    )
    assert done.returncode == 3, done.stderr
    assert re.fullmatch(r"There is no GPU to (test|measure) on here: .+\.\n", done.stdout)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.parametrize("name", ["gpu_bench", "gpu_batch_bench", "gpu_codecs_bench"])
def test_the_benchmarks_on_a_gpu_compile_here(name: str, tmp_path: Path) -> None:
    """No other check of a machine without a GPU compiles them."""
    (tmp_path / "base").mkdir()
    knobs = [sys.executable, str(ROOT / "csrc/base/knobs.py"), str(tmp_path / "base/knobs.inc")]
    subprocess.run(knobs, check=True)
    done = subprocess.run(
        ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
        + [f"-I{folder}" for folder in (ROOT / "csrc", ROOT / "benchmarks/cpp", tmp_path)]
        + [str(ROOT / f"benchmarks/cpp/{name}.cc")],
        capture_output=True,
        text=True,
        timeout=within(120),
    )
    assert done.returncode == 0, done.stderr


SESSION = """
import sys
sys.path.insert(0, sys.argv[1])
from machine import Session
Session().run("a step", ["sh", "-c", f"echo $$ > {sys.argv[2]}; exec sleep 60"])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_who_is_told_to_end_ends_the_step_that_runs(number: signal.Signals, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    program = [sys.executable, "-c", SESSION, str(ROOT / "tests" / "gpu"), str(told)]
    session = subprocess.Popen(
        program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=_default_signals
    )
    wait_until(lambda: told.exists() and told.read_text() or session.poll() is not None)
    os.kill(session.pid, number)
    assert session.wait(timeout=within(30)) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


# who runs tests in the background ignores some, and children inherit that
def _default_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_a_step_that_cannot_begin_is_told_in_the_report() -> None:
    program = "; ".join(
        [
            "import sys",
            "sys.path.insert(0, sys.argv[1])",
            "from machine import Session",
            "step = Session().run('a step', ['/no/such/program'])",
            "assert not step.well and '/no/such/program' in step.note",
        ]
    )
    subprocess.run(
        [sys.executable, "-c", program, str(ROOT / "tests" / "gpu")],
        check=True,
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no CMake")
def test_an_empty_choice_of_a_compiler_is_none(tmp_path: Path) -> None:
    """As the cache of an older build may hold it."""
    configure = [
        "cmake",
        "-S",
        str(ROOT),
        "-B",
        str(tmp_path),
        "-DHVDLITE_CUDA_COMPILER=",
    ]
    environment = {
        name: value for name, value in os.environ.items() if name != "HVDLITE_CUDA_COMPILER"
    }
    done = subprocess.run(
        configure, capture_output=True, text=True, env=environment, timeout=within(120)
    )
    assert done.returncode == 0, done.stderr
    assert "-- GPU kernels: " in done.stdout


def compile_kernels(*arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    command = [sys.executable, "-S", str(COMPILE), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=within(60)
    )


def test_without_a_compiler_there_are_no_kernels_and_the_build_goes_on(tmp_path: Path) -> None:
    done = compile_kernels("build", "none", str(tmp_path))
    assert done.returncode == 0
    assert done.stderr == "hvdlite has no GPU kernels: HVDLITE_CUDA_COMPILER is none\n"
    assert (tmp_path / "images.inc").read_text() == 'HVDLITE_KERNEL_COMPILER("")\n'


def test_a_compiler_that_fails_is_as_good_as_none_unless_it_was_asked_for(tmp_path: Path) -> None:
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(
        "#!/bin/sh\n"
        'case "$1" in --version) echo release 13.9;; --list-gpu-arch) echo compute_80;; *) echo it '
        "is broken; exit 1;; esac\n"
    )
    nvcc.chmod(0o755)
    assert compile_kernels("find", "nvcc", path=str(tmp_path)).stdout == "nvcc 13.9\n"
    asked = compile_kernels("build", "nvcc", str(tmp_path / "asked"), path=f"{tmp_path}:/bin")
    assert asked.returncode == 1 and "it is broken" in asked.stderr
    # NVRTC may be here.
    found = compile_kernels("build", "auto", str(tmp_path / "auto"), path=f"{tmp_path}:/bin")
    assert found.returncode == 0, found.stderr
    assert "nvcc" not in (tmp_path / "auto" / "images.inc").read_text().splitlines()[0]


def test_what_is_not_a_compiler_is_refused() -> None:
    done = compile_kernels("find", "clang")
    assert done.returncode == 1
    assert "HVDLITE_CUDA_COMPILER is 'clang', but must be auto, nvcc, nvrtc or none" in done.stderr


def test_the_library_tells_what_compiled_its_kernels() -> None:
    assert re.fullmatch(r"|(nvcc|NVRTC) \d+\.\d+", _core.gpu_kernels())
