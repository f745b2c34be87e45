"""The fake CUDA driver and the fake NCCL (tests/fake_gpu) as libraries that ranks load, built when
a test first needs them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _build(target: Path, sources: list[Path], *more: str) -> None:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("there is no C++ compiler to build the fake driver with")
    folders = (ROOT / "tests" / "fake_gpu", ROOT / "csrc" / "kernels" / "cuda")
    read = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    newest = max(path.stat().st_mtime for path in read)
    if target.exists() and target.stat().st_mtime > newest:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-shared", "-fPIC", "-std=c++20", "-O1", "-pthread", "-ffp-contract=off"]
    includes = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'tests'}"]
    partial = target.with_suffix(f".{os.getpid()}")
    subprocess.run(
        [compiler, *flags, *includes, *map(str, sources), *more, "-o", str(partial)], check=True
    )
    partial.rename(target)


def environment() -> dict[str, str]:
    """What makes ranks use them."""
    folder = ROOT / "tests" / "fake_gpu"
    cuda = ROOT / "build" / "fake_gpu" / "libfake_cuda.so"
    _build(cuda, [*sorted(folder.glob("*.cc")), *sorted((folder / "cuda").glob("*.cc"))])
    nccl = cuda.parent / "libnccl.so.2"
    rpath = ["-Wl,-rpath,$ORIGIN", "-Wl,-soname,libnccl.so.2", f"-I{ROOT / 'tests' / 'cpp'}"]
    _build(nccl, sorted((folder / "nccl").glob("*.cc")), str(cuda), *rpath)
    return {
        "HVDLITE_CUDA_LIBRARY": str(cuda),
        "HVDLITE_NCCL_LIBRARY": str(nccl),
        "FAKE_CUDA_DEVICES": "4",
    }
