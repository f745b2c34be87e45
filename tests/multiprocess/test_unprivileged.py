"""hvdliterun for somebody who owns nothing: the user nobody, a home that is not there or cannot be
written, no /dev/shm."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from launched import ROOT, Job

_WHY_NOT = (
    "becoming nobody needs root"
    if os.geteuid() != 0
    else "needs the programs setpriv, unshare and mount (Debian: apt-get install util-linux mount)"
    if not all(shutil.which(name) for name in ("setpriv", "unshare", "mount"))
    else None
)
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT))

_SUM = (
    "import os, numpy, hvdlite as hvd; hvd.init(); "
    "print(os.getuid(), hvd.allreduce(numpy.full(3, hvd.rank() + 1.0), op=hvd.Sum)[0])"
)


def _opened(*paths: str) -> str:
    """Shell commands after which everybody reaches these paths, in this mount namespace alone: a
    folder above that only its owner may enter (root's home, a private folder in /tmp) is replaced
    by an empty one with nothing but them."""
    closed = {
        next(
            (str(p) for p in reversed(Path(path).parents) if p.stat().st_mode & 0o005 != 0o005),
            None,
        )
        for path in paths
    }
    lines = ["mount -t tmpfs -o mode=755 none /mnt"]
    for number, path in enumerate(paths):
        lines += [f"mkdir /mnt/{number}", f"mount --bind {shlex.quote(path)} /mnt/{number}"]
    lines += [
        f"mount -t tmpfs -o mode=755 none {shlex.quote(folder)}"
        for folder in sorted(closed - {None}, key=str)
    ]
    for number, path in enumerate(paths):
        lines += [
            f"mkdir -p {shlex.quote(path)}",
            f"mount --bind /mnt/{number} {shlex.quote(path)}",
        ]
    return "\n".join(lines)


def _as_nobody(job: Job, more: str = "true", **extra: str) -> subprocess.CompletedProcess[bytes]:
    opened = _opened(str(ROOT), sys.prefix, sys.base_prefix)
    become = 'cd /; exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"'
    command = [sys.executable, "-m", "hvdlite.launch", "-np", "2", sys.executable, "-c", _SUM]
    return subprocess.run(
        ["unshare", "-m", "sh", "-ec", f"{opened}\n{more}\n{become}", "sh", *command],
        env=job.environment() | extra,
        capture_output=True,
    )


@pytest.mark.parametrize("home", ["/nonexistent", "/proc"], ids=["missing", "read-only"])
def test_nobody_without_a_home(job: Job, home: str) -> None:
    done = _as_nobody(job, HOME=home)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [b"[0]<stdout>:65534 3.0", b"[1]<stdout>:65534 3.0"]
    assert done.stderr == b""


@pytest.mark.parametrize(
    "more",
    ["mount -t tmpfs -o size=4k none /dev/shm", "mount -t tmpfs -o ro none /dev/shm"],
    ids=["tiny", "read-only"],
)
def test_nobody_with_little_shared_memory(job: Job, more: str) -> None:
    done = _as_nobody(job, more, HOME="/nonexistent")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [b"[0]<stdout>:65534 3.0", b"[1]<stdout>:65534 3.0"]
