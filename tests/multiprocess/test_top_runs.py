"""`hvdlite top` beside running jobs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from another_user import as_nobody
from launched import MARK, WAIT, WAIT_FOR, Job, ended, went_to_sleep
from machine import within
from terminal import Watched
from waiting import wait_until

TRAIN = (
    WAIT_FOR
    + """
import sys
import numpy as np, hvdlite as hvd
open(f"pid.{os.environ['HVDLITE_RANK']}", "w").write(str(os.getpid()))
wait_for("begin")
hvd.init()
go_on = np.ones(1)
while go_on[0]:
    time.sleep(0.05 * hvd.rank())  # span: others wait for rank 1
    for handle in [hvd.allreduce_async(np.ones(1000, np.float32), name=f"layer{i}")
                   for i in range(9)]:
        hvd.synchronize(handle)
    go_on = hvd.broadcast(np.array([not os.path.exists("enough")], np.float64), 0, name="go on")
"""
)


def only_ranks_of(job: Job) -> str:
    """`hvdlite top` finds the ranks of no other job."""
    return (
        "from hvdlite.tools.commands import ranks_here\n"
        "found = ranks_here._processes\n"
        "def mine(pid):\n"
        f"    try: return ranks_here.environment_of(pid).get({MARK!r}) == {job.mark!r}\n"
        "    except OSError: return False\n"
        "ranks_here._processes = lambda: filter(mine, found())\n"
    )


class Here:
    """A job and `hvdlite top` in a directory of their own, beside other jobs of this machine."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.launcher, self.top = (
            job.script(
                "import sys\n"
                "from hvdlite.launch.attach import directory\n"
                f"directory._RUNTIME = directory._TEMPORARY = {str(job.directory)!r}\n"
                f"{only_ranks_of(job)}"
                f"from {module} import main\n"
                "sys.exit(main())\n",
                f"{name}.py",
            )
            for name, module in (
                ("launcher", "hvdlite.launch.cli"),
                ("command", "hvdlite.tools.commands.cli"),
            )
        )
        self.sockets = job.directory / f"hvdlite-{os.geteuid()}"

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
        self.job.launcher = [self.launcher]
        process = self.job.start(*arguments, XDG_RUNTIME_DIR="", **extra)
        wait_until(lambda: list(self.sockets.glob(f"{process.pid}.*")))
        return process

    def train(self, begin: bool = True, **extra: str) -> subprocess.Popen[bytes]:
        if begin:
            (self.job.directory / "begin").touch()
        return self.start("-np", "2", sys.executable, self.job.script(TRAIN), **extra)

    def run(self, *arguments: str, **extra: str) -> subprocess.CompletedProcess[bytes]:
        self.job.launcher = [self.top, "top"]
        return self.job.run(*arguments, XDG_RUNTIME_DIR="", **extra)

    def watch(self, *arguments: str, **extra: str) -> Watched:
        self.job.launcher = [self.top, "top"]
        return Watched(self.job, *arguments, keys=True, XDG_RUNTIME_DIR="", **extra)

    def until(self, pattern: str) -> str:
        """What --once prints when it is that."""

        def look() -> str:
            out = self.run("--once").stdout.decode()
            return out if re.search(pattern, out) else ""

        return wait_until(look, 30)

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        (self.job.directory / "enough").touch()
        ended(process)


@pytest.fixture
def here(job: Job) -> Iterator[Here]:
    yield Here(job)


TRAINS = r"(?m)^ +0  localhost +\d.*ms .*%.*\n +1  localhost +\d.*ms .*%.*others wait"


def test_a_table_of_a_job_that_was_not_asked_to_report(here: Here) -> None:
    process = here.train()
    lines = here.until(TRAINS).splitlines()
    title = r"hvdliterun (\d+), 2 ranks, since 0:\d\d:\d\d: \S+ \S+script.py"
    about = re.fullmatch(title, lines[0])
    assert about and int(about[1]) == process.pid, lines
    heads = [line.split()[:3] for line in lines[1:3]]  # other tests may use the processor
    assert ["rank", "host", "step"] in heads, lines
    assert "allreduce.layer" in "\n".join(lines) or "broadcast.go on" in "\n".join(lines)
    told = json.loads(here.run(str(process.pid), "--once", "--json").stdout)
    assert (told["ranks"], told["hosts"], told["complete"]) == (2, ["localhost"], True)
    slow = told["rows"][1]
    assert slow["straggler"] and 0 < slow["steps"] < 20 and slow["memory"] > 1e7
    assert 0 < slow["cores"] < 3
    here.finish(process)
    assert list(here.sockets.iterdir()) == []
    done = here.run("--once")
    assert done.returncode == 1
    said = b"hvdlite top: no job of this user has its hvdliterun or a rank on this host.\n"
    assert done.stderr == said


def test_a_host_that_other_programs_use_is_told_first(here: Here) -> None:
    process = here.train()
    work = [sys.executable, "-c", "while True: pass"]
    others = [here.job.spawn(work, None) for _ in range(2 * len(os.sched_getaffinity(0)))]
    told = here.until(r"The ranks get \d+ % of a core each: other programs use \d+\.\d of the host")
    assert told.splitlines()[1].startswith("The ranks get"), told
    for other in others:
        other.kill()
    here.finish(process)


def test_on_a_terminal_with_keys(here: Here) -> None:
    process = here.train()
    here.until(TRAINS)
    shown = here.watch()
    shown.watch(TRAINS + r"(.*\n)+sorted by rank\.  s: sort")
    shown.press("sss")
    seen = shown.watch(r"sorted by late")
    rows = re.findall(r"(?m)^ +(\d)  localhost", seen)
    assert rows == ["1", "0"], seen
    shown.press("r")
    shown.watch(r"(?m)^ +0  localhost.*\n +1  localhost.*\n.*sorted by late, reversed")
    shown.press("p")
    shown.watch("PAUSED")
    shown.press("q")
    end = shown.watch()
    assert shown.process.returncode == 0 and end == "", end
    here.finish(process)


def test_the_end_of_the_job_is_told(here: Here) -> None:
    process = here.train()
    shown = here.watch()
    shown.watch(TRAINS)
    here.finish(process)
    assert shown.watch() == "hvdlite top: the job has ended."
    assert shown.process.returncode == 0


def test_a_terminal_that_is_closed_and_ctrl_c_leave_the_job_alone(here: Here) -> None:
    process = here.train()
    shown = here.watch()
    shown.watch(TRAINS)
    os.close(shown.master)
    assert shown.process.wait(within(20)) is not None
    shown = here.watch()
    shown.watch(TRAINS)
    shown.process.send_signal(signal.SIGINT)
    assert shown.watch() == "" and shown.process.returncode == 130
    assert process.poll() is None
    here.finish(process)


@pytest.mark.parametrize(("term", "why"), [("dumb", "TERM=dumb"), ("", "TERM=")])
def test_a_terminal_that_cannot_move_its_cursor(here: Here, term: str, why: str) -> None:
    shown = here.watch(TERM=term)
    assert shown.watch() == (
        f"hvdlite top: the terminal cannot move its cursor ({why}): --once prints one table, and "
        "--json prints lines."
    )
    assert shown.process.returncode == 1
    assert b"stdout is not a terminal: --once prints one table" in here.run().stderr


def test_lines_of_json_until_the_job_ends(here: Here) -> None:
    process = here.train()
    here.until(TRAINS)
    here.job.launcher = [here.top, "top"]
    lines = here.job.start("--json", XDG_RUNTIME_DIR="")
    assert lines.stdout is not None
    for _ in range(2):
        frame: dict[str, Any] = json.loads(lines.stdout.readline())
        assert [row["rank"] for row in frame["rows"]] == [0, 1]
    here.finish(process)
    out, _ = ended(lines)
    assert all(json.loads(line)["rows"] for line in out.splitlines())


@pytest.mark.costly
def test_ranks_before_init_and_a_rank_that_is_stopped(here: Here) -> None:
    process = here.train(begin=False, HVDLITE_HEARTBEAT_SECONDS="0")
    here.job.wait_for_files(["pid.0", "pid.1"])
    out = here.until("not between init").splitlines()
    assert sum("not between init() and shutdown()" in line for line in out) == 2
    (here.job.directory / "begin").touch()
    here.until(TRAINS)
    shown = here.watch()
    shown.watch(TRAINS)
    stopped = int((here.job.directory / "pid.1").read_text())
    os.kill(stopped, signal.SIGSTOP)
    shown.watch(r"(?m)^ +1  localhost .*silent for \d+ s")
    os.kill(stopped, signal.SIGCONT)
    shown.watch(TRAINS)
    shown.press("q")
    shown.watch()
    here.finish(process)


def test_an_elastic_job_goes_on_after_a_death_and_top_shows_it(here: Here) -> None:
    program = (
        WAIT_FOR
        + """
import sys
import numpy as np, hvdlite as hvd
hvd.init()
state = hvd.elastic.ObjectState(step=0)
@hvd.elastic.run
def train(state):
    while True:
        go_on = np.array([not os.path.exists("enough")], np.float64)
        if not hvd.broadcast(go_on, 0, name="go on")[0]: return
        time.sleep(0.02)  # span: a step
        state.step += 1
        if state.step == 20 and hvd.rank() == 1 and not os.path.exists("died"):
            open("died", "w").close()
            os._exit(7)
        state.commit()
train(state)
"""
    )
    command = [sys.executable, here.job.script(program)]
    process = here.start("-np", "2", "--min-np", "1", "-H", "localhost:2", *command)
    shown = here.watch()
    seen = shown.watch(r"generation [23].*\n(.*\n)*? +0  localhost, member \d+ +\d.*ms")
    assert re.search("[12] changes? of the ranks", seen), seen
    shown.press("q")
    shown.watch()
    (here.job.directory / "enough").touch()
    process.communicate()
    assert process.returncode == 0


@pytest.mark.costly
def test_several_jobs_are_listed(here: Here) -> None:
    jobs = [here.start("-np", "1", "sh", "-c", f"true {name}; sleep 600") for name in "ab"]
    done = here.run("--once")
    assert done.returncode == 1
    said = done.stderr.decode().splitlines()
    assert said[0] == (
        f"hvdlite top: several jobs run here. `hvdlite top {jobs[1].pid}` shows the first."
    )
    assert [line.split()[0] for line in said[1:]] == [str(job.pid) for job in reversed(jobs)]
    assert all(": 1 rank on localhost " in line for line in said[1:])
    assert here.run(str(jobs[1].pid), "--once").returncode == 0
    shown = here.watch()
    shown.watch(r"(?m)^  1 +\d+ .*\n  2 +\d+ .*\nwhich one\? 1 to 2 \[1\]:")
    shown.press("3\n2\n")  # there is no third
    shown.watch(rf"hvdliterun {jobs[0].pid}, 1 rank")
    shown.press("q")
    shown.watch()
    assert shown.process.returncode == 0
    jobs[0].send_signal(signal.SIGKILL)  # its socket is left behind
    jobs[0].wait()
    assert here.run("--once").returncode == 0
    assert len(list(here.sockets.iterdir())) == 1
    jobs[1].send_signal(signal.SIGSTOP)
    done = here.run("--once")
    assert f"hvdliterun (process {jobs[1].pid}) does not answer".encode() in done.stderr
    jobs[1].send_signal(signal.SIGCONT)
    jobs[1].send_signal(signal.SIGTERM)
    jobs[1].communicate()


def test_a_function_that_a_program_runs_is_a_job_too(here: Here) -> None:
    program = here.job.script(
        WAIT_FOR
        + "from hvdlite.launch.attach import directory\n"
        + f"directory._RUNTIME = directory._TEMPORARY = {str(here.job.directory)!r}\n"
        + "import hvdlite\n"
        + "def task():\n"
        + "    hvdlite.init()\n"
        + "    wait_for('enough')\n"
        + "    return hvdlite.rank()\n"
        + "if __name__ == '__main__': print(hvdlite.run(task, num_proc=2))\n",
        "notebook.py",
    )
    process = here.job.spawn([sys.executable, program], subprocess.PIPE, XDG_RUNTIME_DIR="")
    wait_until(lambda: here.sockets.exists() and list(here.sockets.iterdir()))
    here.until(r"(?m)^ +1  localhost +- ")
    (here.job.directory / "enough").touch()
    out, _ = ended(process)
    assert b"[0, 1]" in out
    assert list(here.sockets.iterdir()) == []


def test_a_job_that_nothing_is_attached_to_sleeps(here: Here) -> None:
    script = here.job.script(
        """
import os, hvdlite as hvd
from hvdlite.job import pulse
send = pulse._Pulse._send
def count(self, client):
    send(self, client)
    with open(f"reports.{hvd.rank()}", "a") as file: file.write("x")
pulse._Pulse._send = count
hvd.init()
open(f"ready.{hvd.rank()}", "w").close()
"""
        + WAIT
    )
    process = here.start("-np", "2", sys.executable, script)
    here.job.wait_ready(2)

    def reports() -> list[int]:
        found = [here.job.directory / f"reports.{rank}" for rank in range(2)]
        return [path.stat().st_size if path.exists() else 0 for path in found]

    assert reports() == [0, 0]
    here.run("--once")
    # Each reports while that is wanted, and once more at most.
    assert all(count >= 2 for count in reports())
    select.select([], [], [], 2.5)
    before, slept = reports(), went_to_sleep(process.pid)
    select.select([], [], [], 2.5)
    assert reports() == before
    assert went_to_sleep(process.pid) - slept < 10
    process.send_signal(signal.SIGTERM)
    process.communicate()


@pytest.mark.parametrize("monitor", [{}, {"HVDLITE_MONITOR": "0.2"}], ids=["asleep", "reporting"])
def test_a_dump_from_another_terminal_asks_all_ranks_once(
    here: Here, monitor: dict[str, str]
) -> None:
    dumps = here.job.directory / "dumps"
    process = here.train(HVDLITE_STALL_DUMP=str(dumps), **monitor)
    here.job.wait_for_files(["pid.0", "pid.1"])
    asked = here.run("--dump")
    assert asked.stdout.decode() == (
        f"2 ranks will write a bundle: `hvdlite explain {dumps}` shows it.\n"
    ), asked
    wait_until(lambda: len(list(dumps.glob("*/asked.rank?.json"))) == 2)
    assert "The job was asked" in here.job.explain(dumps)
    (here.job.directory / "enough").touch()
    _, err = ended(process)
    assert err.count(b"A bundle of this job is in") == 2, err


def test_a_key_asks_for_the_stacks_of_a_job_without_a_folder(here: Here) -> None:
    process = here.train()
    shown = here.watch()
    shown.watch(TRAINS)
    shown.press("d")
    shown.watch(r"2 ranks will print their stacks to the job's stderr")
    assert process.stderr is not None
    seen: set[bytes] = set()
    for line in process.stderr:
        if b"script.py" in line and b"in <module>" in line:
            seen.add(line[: len(b"[0]<stderr>:")])
        if len(seen) == 2:
            break
    shown.press("q")
    shown.watch()
    here.finish(process)


def test_ranks_fork_while_top_is_attached(here: Here) -> None:
    """As loaders of data do: the children end, and the reports go on."""
    forks = TRAIN.replace(
        "    go_on =",
        "    child = os.fork()\n"
        "    if child == 0: os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    forks += 1\n"
        "    if forks == 40: open(f'forked.{hvd.rank()}', 'w').close()\n"
        "    go_on =",
    ).replace("go_on = np.ones(1)", "go_on, forks = np.ones(1), 0")
    assert forks.count("os.fork()") == 1
    (here.job.directory / "begin").touch()
    process = here.start("-np", "2", sys.executable, here.job.script(forks))
    shown = here.watch()
    shown.watch(TRAINS)
    here.job.wait_for_files(["forked.0", "forked.1"])
    shown.watch(TRAINS)
    shown.press("q")
    shown.watch()
    here.finish(process)


def test_strangers_and_nonsense_are_not_answered(here: Here) -> None:
    process = here.start("-np", "1", "sleep", "600")
    [path] = here.sockets.iterdir()
    for nonsense in (
        b"\n", b"{}\n", b"[1]\n", b'{"ask": 5}\n', b"x" * 100_000, b"[" * 3000 + b"\n"
    ):  # fmt: skip
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(within(10))
            sock.connect(str(path))
            with contextlib.suppress(OSError):
                sock.sendall(nonsense)
            sock.shutdown(socket.SHUT_WR)
            with contextlib.suppress(OSError):
                answer = sock.recv(1000)
                assert answer in (b"", b'{"error": "this hvdliterun does not know \'5\'"}\n')
    if os.geteuid() == 0:
        here.sockets.chmod(0o755)
        path.chmod(0o666)
        for parent in path.parents:
            with contextlib.suppress(OSError):
                parent.chmod(parent.stat().st_mode | 0o055)

        def ask() -> bytes:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(within(10))
                sock.connect(str(path))
                sock.sendall(b'{"ask": "job"}\n')
                return sock.recv(1000)

        said = as_nobody(ask)
        assert said == "b''" or "ResetError" in said or "BrokenPipe" in said, said
        here.sockets.chmod(0o700)
    assert here.run("--once").returncode == 0
    process.send_signal(signal.SIGTERM)
    process.communicate()
