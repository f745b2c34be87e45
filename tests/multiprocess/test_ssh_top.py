"""`hvdlite top` on a host that has a rank, of a job whose hvdliterun is on another host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sshd
from far_jobs import FarJob, far_job
from launched import Job, ended
from network import Network, why_not
from test_top_runs import TRAIN, only_ranks_of
from waiting import wait_until

_WHY_NOT = why_not() or sshd.why_not()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT))


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(2, tag="top") as network:
        yield network


@pytest.fixture
def far(job: Job, network: Network, tmp_path: Path) -> Iterator[FarJob]:
    with far_job(job, network, tmp_path) as far:
        yield far


def test_the_table_and_a_dump_from_a_host_that_has_a_rank(far: FarJob, network: Network) -> None:
    job, dumps = far.job, far.job.directory / "dumps"
    (job.directory / "begin").touch()
    script = job.script(TRAIN, "train.py")
    process = far.start("-H", "a:1,b:1", "--stall-dump", str(dumps), sys.executable, script)
    # The hosts share a file system: no socket is found there, as on real hosts.
    top = job.script(
        "import sys\n"
        "from hvdlite.launch.attach import directory\n"
        "directory._RUNTIME = directory._TEMPORARY = '/nonexistent'\n"
        f"{only_ranks_of(job)}"
        "from hvdlite.tools.commands.cli import main\n"
        "sys.exit(main())\n",
        "command.py",
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [*network.prefix(1), sys.executable, top, "top", *arguments]
        return job.command(*words, XDG_RUNTIME_DIR="")

    def table() -> str:
        out = run("--once").stdout
        return out if re.search(r"(?m)^ +1  b +\d.*ms .*others wait", out) else ""

    lines = wait_until(table, 40, lambda: run("--once")).splitlines()
    about = re.fullmatch(r"hvdliterun (\d+) on \S+, 2 ranks, since .*: .*train\.py", lines[0])
    assert about, lines
    told = json.loads(run(about[1], "--once", "--json").stdout)
    assert (told["ranks"], told["hosts"]) == (2, ["a", "b"])
    assert run("--dump").stdout.startswith("2 ranks will write a bundle: ")
    wait_until(lambda: len(list(dumps.glob("*/asked.rank?.json"))) == 2)
    (job.directory / "enough").touch()
    ended(process)
