"""What `--check-build` says about tensors on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from machine import within

_core = pytest.importorskip("hvdlite._core", reason="the native core is not built here")

from hvdlite.job import horovod_basics, libraries  # noqa: E402
from hvdlite.launch import check_build  # noqa: E402

FAKES = sorted(
    Path(__file__).resolve().parents[2].glob("build/cpp-plain/tests/fake_gpu/libfake_cuda.so")
)


def _nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVDLITE_CUDA_LIBRARY", "libcuda-of-nobody.so.1")
    monkeypatch.setenv("HVDLITE_NCCL_LIBRARY", "/nowhere/libnccl.so.2")


def test_why_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _nothing_here(monkeypatch)
    _, cuda, nccl = check_build.gpu()
    assert not cuda[0] and cuda[1].startswith(
        "CUDA cannot be used: no NVIDIA driver is installed here (libcuda-of-nobody"
    )
    assert not nccl[0] and nccl[1].startswith(
        "NCCL cannot be used: HVDLITE_NCCL_LIBRARY=/nowhere/libnccl.so.2: "
    )


def test_versions_as_people_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "gpu_kernels", lambda: "nvcc 13.0")
    monkeypatch.setattr(_core, "find_cuda", lambda library: 12080)
    monkeypatch.setattr(_core, "find_nccl", lambda wanted, wheel: 22803)
    assert list(libraries.gpu_rows()) == [
        (True, "kernels: compiled by nvcc 13.0"),
        (True, "CUDA: the driver is that of 12.8"),
        (True, "NCCL: 2.28.3"),
    ]


@pytest.mark.skipif(
    not FAKES, reason="the fake CUDA driver is not built here (scripts/cpp-tests plain)"
)
def test_a_driver_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVDLITE_CUDA_LIBRARY", str(FAKES[0]))
    assert (True, "CUDA: the driver is that of 13.0") in list(check_build.gpu())
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "0")
    assert any("this process sees no GPU" in text for there, text in check_build.gpu() if not there)


def test_what_programs_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    _nothing_here(monkeypatch)
    assert horovod_basics.nccl_built() == 0
    assert horovod_basics.cuda_built() is bool(_core.gpu_kernels())
    assert horovod_basics.rocm_built() is False


def test_asking_for_kernels_loads_no_driver() -> None:
    program = (
        "from hvdlite.job.horovod_basics import cuda_built\ncuda_built()\nassert 'libcuda' not in "
        "open('/proc/self/maps').read()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=within(60))
