"""On machines that lack something: a job works all the same, or says in one sentence what is
missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import network
import pytest
from elastic_faults import QUICKLY, generations, program
from launched import Job

SUMS = """
import numpy as np, hvdlite as hvd
hvd.init()
for n in (1, 1000, 1 << 20):
    assert (hvd.allreduce(np.ones(n, np.float32), op=hvd.Sum) == hvd.size()).all()
print("fine", hvd.local_size())
"""

# Until then ranks try again what may get better, and this does not.
SOON = "2"

_NO_MOUNTS = (
    os.geteuid() != 0
    or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0
)
needs_mounts = pytest.mark.skipif(_NO_MOUNTS, reason="mount namespaces need root and unshare(1)")
_NO_NETWORK = network.why_not()
needs_network = pytest.mark.skipif(_NO_NETWORK is not None, reason=_NO_NETWORK or "")


def launch(
    job: Job, *prefix: str, before_each_rank: tuple[str, ...] = (), ranks: int = 2, **extra: str
) -> subprocess.CompletedProcess[str]:
    """`prefix` hvdliterun `before_each_rank` python SUMS"""
    python = shutil.which(sys.executable) or sys.executable
    launcher = [
        python,
        "-m",
        "hvdlite.launch",
        "-np",
        str(ranks),
        *before_each_rank,
        python,
        job.script(SUMS),
    ]
    return job.command(*prefix, *launcher, **extra)


@needs_mounts
@pytest.mark.parametrize("options", ["size=4k", "size=64k", "ro"])
def test_a_tiny_or_read_only_dev_shm_is_enough(job: Job, options: str) -> None:
    mount = f'mount -t tmpfs -o {options} none /dev/shm && exec "$@"'
    done = launch(job, "unshare", "-m", "sh", "-c", mount, "sh")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fine 2") == 2


@needs_mounts
def test_ranks_that_do_not_share_dev_shm_still_share_memory(job: Job) -> None:
    """As in containers of one machine."""
    done = launch(
        job,
        before_each_rank=(
            *"unshare -m sh -c".split(),
            'mount -t tmpfs none /dev/shm && exec "$@"',
            "sh",
        ),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fine 2") == 2


@needs_mounts
def test_a_read_only_tmp_is_enough(job: Job) -> None:
    done = launch(
        job, "unshare", "-m", "sh", "-c", 'mount --bind -o ro /var/tmp /var/tmp && exec "$@"', "sh"
    )
    assert done.returncode == 0, done.stderr


@needs_network
def test_a_machine_without_free_ports_is_told_so_in_one_sentence(job: Job) -> None:
    few = (
        'ip link set lo up && echo "40000 40000" > /proc/sys/net/ipv4/ip_local_port_range && '
        'exec "$@"'
    )
    done = launch(job, "unshare", "-n", "sh", "-c", few, "sh", HVDLITE_START_TIMEOUT=SOON)
    assert done.returncode != 0
    assert "no free port left (net.ipv4.ip_local_port_range)" in done.stderr, done.stderr


@needs_network
def test_a_machine_without_a_network_runs_jobs_of_one_host(job: Job) -> None:
    done = launch(job, "unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fine 2") == 2


@needs_network
def test_without_even_a_loopback_one_sentence_says_so(job: Job) -> None:
    done = launch(job, "unshare", "-n", HVDLITE_START_TIMEOUT=SOON)
    assert done.returncode != 0
    assert "127.0.0.1" in done.stderr and "Traceback" not in done.stderr.splitlines()[-1], (
        done.stderr
    )


@pytest.mark.parametrize("limit", [24, 40, 64])
def test_few_file_descriptors_are_enough_or_named(job: Job, limit: int) -> None:
    done = launch(job, "sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", ranks=4)
    if done.returncode != 0:
        assert "open files" in done.stderr, done.stderr
    else:
        assert done.stdout.count("fine 4") == 4


# What members print fills the disk. The fourth one comes when there is no room for a folder.
FILLS = """
print("x" * 100_000, flush=True)
def happens(step):
    if (MEMBER, step) == (2, 5): die()
"""
FULL = 'mkdir logs && mount -t tmpfs -o size=64k,nr_inodes=10 none logs && exec "$@"'


@needs_mounts
def test_a_full_disk_ends_copies_of_output_and_no_elastic_job(job: Job) -> None:
    script = program(job, FILLS, done="hvd.size() == 3 and hvd.elastic.generation() > 1")
    job.prefix = ("unshare", "-m", "sh", "-c", FULL, "sh")
    flags = ("-np", "3", "--min-np", "1", *QUICKLY, "--output-filename", "logs")
    done = job.end_well(*flags, sys.executable, script)
    assert b"'s stdout ends here: No space left on device" in done.stdout
    said = "there is no copy of member 4's stdout: cannot write to logs/rank.4: No space left on"
    assert said in done.stderr.decode()
    assert generations(job, 1) == [(1, 3), (2, 2), (3, 3)]
