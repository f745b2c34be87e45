"""A machine with a GPU, for tests/gpu/run and benchmarks/gpu/run: what it has, the build there,
steps against the clock, the report.

Of Python's standard library alone, and without network: such machines are lent for minutes, and
bare.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "gpu"
NO_GPU = 3  # the exit code where there is nothing to run on
LIMIT = 540.0  # seconds for everything


def facts() -> dict[str, str]:
    """What GPU this is and which versions are here. OSError: why there is none."""
    driver = ctypes.CDLL("libcuda.so.1")
    number, count, device, text = (
        ctypes.c_int(),
        ctypes.c_int(),
        ctypes.c_int(),
        ctypes.create_string_buffer(256),
    )
    if code := driver.cuInit(0):
        raise OSError(f"the driver cannot be used: cuInit returned {code}")
    driver.cuDeviceGetCount(ctypes.byref(count))
    if count.value == 0:
        raise OSError("the driver sees no GPU")
    driver.cuDriverGetVersion(ctypes.byref(number))
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDeviceGetName(text, len(text), device)
    found = {
        "date": time.strftime("%Y-%m-%d"),
        "GPU": text.value.decode(),
        "GPUs": str(count.value),
        "driver": f"CUDA {number.value // 1000}.{number.value % 1000 // 10}",
        "Python": sys.version.split()[0],
    }
    for package in ("torch", "nvidia-nccl-cu13", "nvidia-nccl-cu12"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def apart(about: dict[str, str]) -> list[str]:
    """The option that several ranks of one GPU need: NCCL takes them since 2.30, and before only if
    it believes each on a host of its own."""
    versions = [text for name, text in about.items() if name.startswith("nvidia-nccl")]
    known = versions[0] if versions else "0.0"
    return [] if tuple(int(part) for part in known.split(".")[:2]) >= (2, 30) else ["--hosts"]


@dataclass
class Step:
    name: str
    well: bool
    seconds: float
    output: str = field(repr=False)
    note: str = ""


def _end(process: subprocess.Popen[str]) -> str:
    """Ends a step with all of its processes (hvdliterun ends its ranks, which have sessions of
    their own); what it had said."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()[0]


class Session:
    """Runs steps until the time is over; what has not been run is a failure, too."""

    def __init__(self) -> None:
        self._end = time.monotonic() + LIMIT
        self.steps: list[Step] = []
        self._starting = False
        self._told = 0  # to end, by this signal
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._be_told)

    def _be_told(self, number: int, frame: object) -> None:
        self._told = number
        if not self._starting:  # else nobody would end the step
            sys.exit(128 + number)

    def run(
        self,
        name: str,
        command: Sequence[str | Path],
        limit: float = LIMIT,
        says: str = "",
        **variables: str,
    ) -> Step:
        """One program, with these variables in its environment; all of its processes are ended with
        it. It has done well if it ends with 0, or, where `says` is given, has said that."""
        began = time.monotonic()
        limit = min(limit, self._end - began)
        print(f"==> {name}", flush=True)
        if limit <= 1:
            return self._add(Step(name, False, 0.0, "", "not run: the time was over"))
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **variables}
        self._starting = True
        try:
            process = subprocess.Popen(
                [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, cwd=ROOT, env=environment, start_new_session=True
            )  # fmt: skip
        except OSError as problem:
            return self._add(Step(name, False, 0.0, "", f"not run: {problem}"))
        finally:
            self._starting = False
        note = ""
        try:
            if self._told:
                sys.exit(128 + self._told)
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            note = f"ended after {limit:.0f} s"
            output = _end(process)
        except BaseException:
            _end(process)
            raise
        if process.returncode and not note:
            note = f"exit code {process.returncode}"
        well = says in output if says else process.returncode == 0
        if not well:
            note = note or f"it did not say {says!r}"
        return self._add(Step(name, well, time.monotonic() - began, output, note))

    def skip(self, name: str, why: str) -> None:
        self._add(Step(name, False, 0.0, "", f"not run: {why}"))

    def _add(self, step: Step) -> Step:
        self.steps.append(step)
        if not step.well:
            print("\n".join(step.output.splitlines()[-40:]))
        print(f"    {'well' if step.well else step.note}, {step.seconds:.0f} s", flush=True)
        return step

    def build(self, tests: bool) -> bool:
        """The libraries into this tree's hvdlite/, and the programs in C++ into BUILD."""
        pybind = subprocess.run(
            [sys.executable, "-m", "pybind11", "--cmakedir"], capture_output=True, text=True
        )
        if pybind.returncode:
            self.skip("configure", "pybind11 is missing (pip install pybind11)")
            return False
        module = f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
        configure: list[str | Path] = ["cmake", "-S", ROOT / "benchmarks/cpp", "-B", BUILD,
            f"-DPython3_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={pybind.stdout.strip()}",
            f"-DHVDLITE_TESTS={'ON' if tests else 'OFF'}",
            f"-DHVDLITE_MODULES={module}={sysconfig.get_path('include')}",
            f"-DCMAKE_INSTALL_PREFIX={ROOT}"]  # fmt: skip
        if shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        if not self.run("configure", configure).well:
            return False
        targets = ["hvdlite", "hvdlite_tensorflow", "hvdlite_xla", module]
        targets += "gpu_bench gpu_batch_bench gpu_codecs_bench".split()
        build = ["cmake", "--build", BUILD, "--parallel", str(os.cpu_count()), "--target", *targets]
        if not self.run("build", [*build, *(["hvdlite_tests"] if tests else [])]).well:
            return False
        return self.run("install", ["cmake", "--install", BUILD / "hvdlite"]).well

    def ranks(
        self, name: str, count: int, program: Sequence[str | Path], limit: float, **variables: str
    ) -> Step:
        """As many ranks of a Python program, all on the first GPU."""
        launch = [
            sys.executable,
            "-m",
            "hvdlite.launch.cli",
            "-np",
            str(count),
            sys.executable,
            *program,
        ]
        return self.run(name, launch, limit, NCCL_MULTI_RANK_GPU_ENABLE="1", **variables)


def objects(output: str) -> list[dict[str, Any]]:
    """The lines of JSON in what a program has said; hvdliterun puts "[0]<stdout>:" before them."""
    found = re.findall(r"^(?:\[\d+\]<stdout>:)?(\{.*\})$", output, re.M)
    return [json.loads(line) for line in found]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def write(
    name: str,
    title: str,
    about: dict[str, str],
    session: Session,
    parts: Sequence[str],
    data: object,
) -> int:
    """NAME.md and NAME.json under $OUT (build/gpu without it). Returns the exit code."""
    folder = Path(os.environ.get("OUT") or BUILD)
    folder.mkdir(parents=True, exist_ok=True)
    steps = table(
        ("step", "result", "seconds"),
        [
            (step.name, "well" if step.well else step.note, f"{step.seconds:.0f}")
            for step in session.steps
        ],
    )
    page = (
        "\n\n".join([f"# {title}", table(("what", "here"), list(about.items())), *parts, steps])
        + "\n"
    )
    (folder / f"{name}.md").write_text(page)
    everything = {
        "machine": about,
        "steps": [asdict(step) for step in session.steps],
        "results": data,
    }
    (folder / f"{name}.json").write_text(json.dumps(everything, indent=1))
    print(page)
    return 0 if session.steps and all(step.well for step in session.steps) else 1
