#!/usr/bin/env python3
"""Compiles kernels.cu for the GPUs that are about, with nvcc or with NVRTC: whichever is there.
CMakeLists.txt calls it.

    compile.py find auto|nvcc|nvrtc|none             prints what would compile: "nvcc 13.0",
                                                     or "none: " and why
    compile.py build auto|nvcc|nvrtc|none FOLDER     writes the images there, and images.inc, which
                                                     lists them

NVRTC is nvcc's compiler as a library: `pip install nvidia-cuda-nvrtc`, and part of every torch for
CUDA. It is looked for in the environment that builds, also from within pip's isolated builds.
Nothing of CUDA is needed to build hvdlite: without either of them it has no kernels, and GPU
tensors are handled without.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "kernels.cu"
INCLUDE = SOURCE.parents[2]
# Machine code for what data centres have, and for everything else, older or not yet born, PTX,
# which the driver compiles.
MACHINES = (80, 90, 100)
PTX = 75
# A product and the sum that it goes into are rounded one by one, as on the processor.
OPTIONS = ("--std=c++17", "--fmad=false", f"-I{INCLUDE}")
OLDEST = (12, 0)


class Unusable(Exception):
    """Why a compiler cannot be had, or has failed."""


class Nvcc:
    def __init__(self) -> None:
        found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
        if not found:
            raise Unusable("no nvcc on PATH nor in /usr/local/cuda/bin")
        self._path = found
        # ccache, where the build has it: each build folder needs the same images.
        self._launcher = os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER", "").split(";")
        version = re.search(r"release (\d+)\.(\d+)", self._run("--version"))
        if not version:
            raise Unusable(f"{found} does not tell its version")
        self.version = (int(version[1]), int(version[2]))
        self.name = f"nvcc {version[1]}.{version[2]}"

    def architectures(self) -> set[int]:
        return {int(n) for n in re.findall(r"compute_(\d+)\b", self._run("--list-gpu-arch"))}

    def compile(self, architecture: str, folder: Path) -> bytes:
        kind = "ptx" if architecture.startswith("compute") else "cubin"
        image = folder / f"nvcc-{architecture}"
        # Its objections to new versions of g++ concern code for the processor, of which there is
        # none here.
        self._run(
            "-c", f"--{kind}", f"--gpu-architecture={architecture}", "-allow-unsupported-compiler",
            *OPTIONS, "-o", str(image), str(SOURCE)
        )  # fmt: skip
        content = image.read_bytes()
        image.unlink()
        return content

    def _run(self, *arguments: str) -> str:
        command = [*filter(None, self._launcher), self._path, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Unusable(f"{self._path} failed:\n{done.stdout}{done.stderr}")
        return done.stdout


class Nvrtc:
    def __init__(self) -> None:
        self._library = self._load()
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(
            self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion"
        )
        self.version = (major.value, minor.value)
        self.name = f"NVRTC {major.value}.{minor.value}"

    @staticmethod
    def _load() -> ctypes.CDLL:
        # An isolated build has folders of its own in sys.path; those of the environment that it is
        # for are in sysconfig.
        folders = dict.fromkeys(
            [*sys.path, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        )
        wheels = [f"{folder}/nvidia/*/lib/libnvrtc.so.*[0-9]" for folder in folders if folder]
        found = [path for pattern in wheels for path in sorted(glob.glob(pattern), reverse=True)]
        for name in (*found, "libnvrtc.so.13", "libnvrtc.so.12"):
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        raise Unusable("no NVRTC in this environment (pip install nvidia-cuda-nvrtc)")

    def architectures(self) -> set[int]:
        count = ctypes.c_int()
        self._check(
            self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)),
            "nvrtcGetNumSupportedArchs",
        )
        numbers = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(numbers), "nvrtcGetSupportedArchs")
        return set(numbers)

    def compile(self, architecture: str, folder: Path) -> bytes:
        program = ctypes.c_void_p()
        source = SOURCE.read_bytes()
        created = self._library.nvrtcCreateProgram(
            ctypes.byref(program), source, SOURCE.name.encode(), 0, None, None
        )
        self._check(created, "nvrtcCreateProgram")
        options = [option.encode() for option in (f"--gpu-architecture={architecture}", *OPTIONS)]
        failed = self._library.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*options)
        )
        if failed:
            raise Unusable(
                f"NVRTC failed:\n{self._get(program, 'ProgramLog').rstrip(bytes(1)).decode()}"
            )
        return self._get(program, "PTX" if architecture.startswith("compute") else "CUBIN")

    def _get(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(
            getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)),
            f"nvrtcGet{what}Size",
        )
        content = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, content), f"nvrtcGet{what}")
        return content.raw

    @staticmethod
    def _check(code: int, function: str) -> None:
        if code:
            raise Unusable(f"NVRTC failed: {function} returned {code}")


COMPILERS: dict[str, Callable[[], Nvcc | Nvrtc]] = {"nvcc": Nvcc, "nvrtc": Nvrtc}


def find(choice: str) -> tuple[list[Nvcc | Nvrtc], list[str]]:
    """The compilers that there are, the preferred one first, and why there are not more."""
    compilers, problems = [], []
    for name in COMPILERS if choice == "auto" else (choice,):
        try:
            compiler = COMPILERS[name]()
            if compiler.version < OLDEST:
                raise Unusable(f"{compiler.name} is too old: {OLDEST[0]}.{OLDEST[1]} is needed")
            compilers.append(compiler)
        except (Unusable, OSError) as problem:
            problems.append(str(problem))
    return compilers, problems


def build(compiler: Nvcc | Nvrtc, folder: Path) -> list[str]:
    """Compiles for all architectures that the compiler knows of, and returns the rows of
    images.inc."""
    known = compiler.architectures()
    machines = [f"sm_{number}" for number in MACHINES if number in known]
    architectures = [*machines, f"compute_{min(n for n in known if n >= PTX)}"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        images = list(
            pool.map(lambda architecture: compiler.compile(architecture, folder), architectures)
        )
    rows = []
    for architecture, content in zip(architectures, images, strict=True):
        # Named by content: whatever tells files by their names sees that this is another one.
        path = folder / f"{architecture}-{hashlib.sha256(content).hexdigest()[:12]}"
        path.write_bytes(content)
        kind, number = architecture.split("_")
        major, minor = divmod(int(number), 10)
        ptx = "true" if kind == "compute" else "false"
        rows.append(
            f"HVDLITE_KERNEL_IMAGE({architecture}, {major}, {minor}, {ptx}, {len(content)}, "
            f'"{path}")'
        )
    print(f"hvdlite's GPU kernels: {compiler.name}, for {', '.join(architectures)}")
    return rows


def main(command: str, choice: str, folder: str = "") -> None:
    if choice not in ("auto", "none", *COMPILERS):
        raise SystemExit(
            f"HVDLITE_CUDA_COMPILER is '{choice}', but must be auto, nvcc, nvrtc or none"
        )
    compilers, problems = (
        ([], ["HVDLITE_CUDA_COMPILER is none"]) if choice == "none" else find(choice)
    )
    asked_for = choice in COMPILERS
    if asked_for and not compilers:
        raise SystemExit(f"HVDLITE_CUDA_COMPILER is {choice}, but: {problems[0]}")
    if command == "find":
        print(compilers[0].name if compilers else f"none: {'; '.join(problems)}")
        return
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*_*-*"):
        old.unlink()
    name, rows = "", []
    for compiler in compilers:
        try:
            name, rows = compiler.name, build(compiler, target)
            break
        except Unusable as problem:
            if asked_for:
                raise SystemExit(str(problem)) from None
            problems.append(str(problem))
            name = ""
    if not rows:
        print(f"hvdlite has no GPU kernels: {'; '.join(problems)}", file=sys.stderr)
    (target / "images.inc").write_text("\n".join([f'HVDLITE_KERNEL_COMPILER("{name}")', *rows, ""]))


if __name__ == "__main__":
    main(*sys.argv[1:])
