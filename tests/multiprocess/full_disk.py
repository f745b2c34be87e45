"""A folder whose file system has no room."""

from __future__ import annotations

import os
import shutil

import pytest
from launched import Job


def prefix(job: Job) -> list[str]:
    """Makes a command, and what it starts, see the folder `full` of the job, where files can be
    made and nothing can be written."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a small file system needs root and unshare(1)")
    full = job.directory / "full"
    full.mkdir()
    script = (
        f'mount -t tmpfs -o size=4k tmpfs "{full}" && head -c 4096 /dev/zero > "{full}/filler" '
        '&& exec "$@"'
    )
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
