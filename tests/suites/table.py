"""The suites of scripts/test, one row each: what they run, in which tiers, and what they cost.

`seconds` and `cores` are those of the tier `commit` on two cores: the longest suite starts first,
and suites run side by side while their cores fit. A file of tests belongs to the first row whose
pattern matches it; tests/unit/test_suites.py finds files without a row.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUICK, COMMIT, ALL = "quick", "commit", "all"


@dataclass(frozen=True)
class Suite:
    name: str
    tiers: tuple[str, ...]
    seconds: float
    files: tuple[str, ...] = ()  # patterns below tests/: pytest runs what they match
    command: tuple[str, ...] = ()  # or this, from the root
    cores: float = 1.0
    # removes from /dev/shm what MPI's killed ranks left there, which may be another suite's
    cleans_shm: bool = False
    after: str = ""  # the suite that must have passed
    needs: str = ""  # files without which it cannot run, with blanks between them
    package: str = ""  # Debian's packages that bring those files
    limit: float = 2400.0  # seconds: longer is a hang

    @property
    def missing(self) -> list[str]:
        return [each for each in self.needs.split() if not Path(each).exists()]


EVERYWHERE = (QUICK, COMMIT, ALL)
FROM_COMMIT = (COMMIT, ALL)
GTEST = "/usr/include/gtest/gtest.h"

SUITES = (
    # 2,000 random histories of an elastic job, and a million in the tier `all`: 16 minutes there.
    Suite("elastic histories", EVERYWHERE, 10, ("unit/test_elastic_random.py",), limit=7200.0),
    Suite("unit", EVERYWHERE, 140, ("unit/test_*.py",), cores=0.9),
    Suite(
        "architecture", EVERYWHERE, 60, ("architecture/test_*.py", "drop_in/test_*.py"), cores=0.9
    ),
    Suite("numpy", EVERYWHERE, 70, ("conformance/test_conformance.py",), cores=1.2),
    Suite("torch", EVERYWHERE, 90, ("conformance/test_torch.py",), cores=1.3),
    Suite("tensorflow", EVERYWHERE, 45, ("conformance/test_tensorflow.py",), cores=1.3),
    Suite("jax", EVERYWHERE, 45, ("conformance/test_jax.py",), cores=1.3),
    Suite("keras", EVERYWHERE, 75, ("conformance/test_keras.py",), cores=1.3),
    Suite("less", (ALL,), 900, ("conformance/test_less.py",), cores=1.3),
    Suite("mpi", FROM_COMMIT, 75, ("conformance/test_mpi.py",), cores=1.2, cleans_shm=True),
    # Namespaces of the network and ssh servers belong to the machine: one suite at a time.
    Suite(
        "hosts", FROM_COMMIT, 110, ("multiprocess/test_ssh*.py", "multiprocess/test_network.py"),
        cores=0.3, cleans_shm=True,
    ),
    Suite(
        "slurm", (ALL,), 150, ("multiprocess/test_slurm*.py",), cores=0.5, cleans_shm=True,
        needs="/usr/sbin/slurmctld", package="slurmctld slurmd slurm-client munge",
    ),
    Suite(
        "launchers", FROM_COMMIT, 160,
        ("multiprocess/test_launchers*.py", "multiprocess/test_mpi*.py"), cores=0.4,
        cleans_shm=True,
    ),
    Suite(
        "programs", FROM_COMMIT, 260,
        ("multiprocess/test_*_programs.py", "multiprocess/test_examples.py",
         "multiprocess/test_gpu_*.py", "multiprocess/test_elastic_frameworks.py"),
        cores=0.8, cleans_shm=True,
    ),
    # Real Ray, Spark, Lightning and others: one of them runs at a time.
    Suite("integrations", FROM_COMMIT, 60, ("integrations/test_*.py",)),
    # 400 random schedules of deaths in the tier `all`.
    Suite("elastic", EVERYWHERE, 330, ("multiprocess/test_elastic*.py",), cores=0.7, limit=7200.0),
    # They mostly wait: two suites side by side take half the time of one.
    Suite(
        "processes a-m", EVERYWHERE, 210, ("multiprocess/test_[a-m]*.py",), cores=0.3,
        cleans_shm=True,
    ),
    Suite(
        "processes n-z", EVERYWHERE, 360, ("multiprocess/test_*.py",), cores=0.5,
        cleans_shm=True,
    ),
    Suite(
        "C++ build", FROM_COMMIT, 300, command=("scripts/cpp-tests", "--build", "plain"), cores=1.0,
        needs=GTEST, package="libgtest-dev",
    ),
    Suite(
        "C++", FROM_COMMIT, 110, command=("scripts/cpp-tests", "plain"), cores=1.2,
        after="C++ build", needs=GTEST, package="libgtest-dev",
    ),
    Suite("lint", (COMMIT,), 70, command=("scripts/lint", "--changed")),
    Suite("lint all", (ALL,), 300, command=("scripts/lint",)),
    Suite("package", FROM_COMMIT, 150, command=("scripts/package",), cores=0.5),
    Suite(
        "instructions", (ALL,), 60, command=("scripts/instructions",),
        needs="/usr/bin/valgrind", package="valgrind",
    ),
    Suite("docs", (ALL,), 60, command=("scripts/docs",)),
    Suite(
        "site", (ALL,), 600, command=("scripts/docs", "--check"), after="docs", limit=7200.0,
        needs="/usr/bin/chromium /usr/bin/npm", package="chromium nodejs npm",
    ),
    *(
        Suite(
            f"C++ {sanitizer}", (ALL,), 900, command=("scripts/cpp-tests", sanitizer), cores=2.0,
            needs=GTEST, package="libgtest-dev",
        )
        for sanitizer in ("thread", "address")
    ),
    Suite(
        "fuzz", (ALL,), 470, command=("scripts/fuzz", "45"), cores=2.0,
        needs="/usr/bin/clang++-14", package="clang-14 libclang-rt-14-dev",
    ),
    Suite(
        "Debian's MPIs", (ALL,), 300, command=(sys.executable, "tests/versions/run", "mpi-debian"),
        needs="/usr/bin/mpiexec.openmpi", package="libopenmpi-dev openmpi-bin libmpich-dev mpich",
    ),
)  # fmt: skip


def suite_of(path: str) -> Suite | None:
    """The row to which a file below tests/ belongs."""
    return next((s for s in SUITES if any(fnmatch(path, pattern) for pattern in s.files)), None)


def files_of(suite: Suite) -> list[str]:
    """From the root."""
    tests = ROOT / "tests"
    return sorted(
        str(path.relative_to(ROOT))
        for path in tests.rglob("test_*.py")
        if suite_of(str(path.relative_to(tests))) is suite
    )
