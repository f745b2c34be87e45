"""A job under the real launcher, whose processes are found again by a mark in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from machine import within
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
MARK = "HVDLITE_TEST_MARK"

# For --grace-seconds: a launcher that waits for their end is found out, and no rank is killed
# because it is slow.
PATIENT = "600"

# What scripts of ranks are made of. Handlers of signals run while it waits to be ended. (A signal
# that comes just before signal.pause() would be handled after the next one only. It leaves a byte
# in this pipe.)
WAIT = (
    "import os, signal\n"
    "signals, wakes = os.pipe()\n"
    "os.set_blocking(wakes, False)\n"
    "signal.set_wakeup_fd(wakes)\n"
    "while True: os.read(signals, 1)\n"
)
# "I am here" for wait_for_files(), and then WAIT.
READY = 'import os\nopen("ready." + os.environ["HVDLITE_RANK"], "w").close()\n' + WAIT

# A function that waits for other ranks, or for the test.
WAIT_FOR = """
import os, time
def wait_for(*names):
    while not all(map(os.path.exists, names)): time.sleep(0.01)  # poll
"""


def _default_signals() -> None:
    # A test run in the background (`pytest &`) ignores SIGINT and SIGQUIT, one under nohup SIGHUP,
    # and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def ended(process: subprocess.Popen[bytes], code: int = 0) -> tuple[bytes, bytes]:
    """What a process has printed, on stdout and on stderr, that ends with this code."""
    out, err = process.communicate()
    assert process.returncode == code, ((out or b"") + (err or b"")).decode(errors="replace")
    return out, err


class Launcher:
    """What starts jobs: start() says how."""

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
        raise NotImplementedError

    def run(self, *arguments: str, **extra: str) -> subprocess.CompletedProcess[bytes]:
        """Start and wait for the end."""
        process = self.start(*arguments, **extra)
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def end_well(self, *arguments: str, **extra: str) -> subprocess.CompletedProcess[bytes]:
        """run(), which has to end with code 0."""
        process = self.start(*arguments, **extra)
        return subprocess.CompletedProcess(process.args, 0, *ended(process))


class Job(Launcher):
    """Launches `hvdliterun` and finds every process of the job by a variable in its environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mark = uuid.uuid4().hex
        self.started: list[subprocess.Popen[bytes]] = []
        self.prefix: Sequence[str] = ()  # what makes the launcher run elsewhere
        self.launcher: Sequence[str] = ("-m", "hvdlite.launch")  # or a script of the test

    def environment(self, **extra: str) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("HVDLITE_", "HOROVOD_"))}
        path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
        return clean | {MARK: self.mark, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | extra

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
        """`hvdliterun arguments...`; a variable of the environment is a keyword."""
        command = [*self.prefix, sys.executable, *self.launcher, *arguments]
        return self.spawn(command, subprocess.PIPE, **extra)

    def spawn(self, command: Sequence[str], stderr: int, **extra: str) -> subprocess.Popen[bytes]:
        """Any command, as a process of the job."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=self.directory,
            env=self.environment(**extra),
            preexec_fn=_default_signals,
        )
        self.started.append(process)
        return process

    def command(self, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
        """Runs any command in the job's folder and environment, without a launcher."""
        return subprocess.run(
            words,
            cwd=self.directory,
            env=self.environment(**extra),
            capture_output=True,
            text=True,
        )

    def explain(self, folder: Path) -> str:
        """What `hvdlite explain` says of bundles."""
        done = self.command(sys.executable, "-m", "hvdlite.tools", "explain", str(folder))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def script(self, text: str, name: str = "script.py") -> str:
        """A Python file for ranks to run."""
        path = self.directory / name
        path.write_text(text)
        return str(path)

    def name_hosts(self, *hosts: str) -> Path:
        """The file that a discovery script prints, with these lines from now on; never half one."""
        path = self.directory / "hosts"
        new = self.directory / "hosts.new"
        new.write_text("".join(f"{host}\n" for host in hosts))
        os.replace(new, path)
        return path

    def pids(self) -> list[int]:
        """All living processes of the job."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(
                        b"\0"
                    ):
                        found.append(int(entry.name))
        return found

    def wait_until_gone(self, seconds: float) -> list[int]:
        """Who is left after that time of a machine of its own."""
        deadline = time.monotonic() + within(seconds)
        while (left := self.pids()) and time.monotonic() < deadline:
            time.sleep(0.01)  # poll
        return left

    def wait_ready(self, ranks: int) -> None:
        """Until so many ranks have come to READY."""
        self.wait_for_files([f"ready.{rank}" for rank in range(ranks)])

    def wait_for_files(self, names: Sequence[str], seconds: float = 20) -> None:
        """Until ranks have created these files."""
        wait_until(
            lambda: all((self.directory / name).exists() for name in names),
            seconds,
            lambda: f"no {names}: {os.listdir(self.directory)}",
        )


def went_to_sleep(*pids: int) -> int:
    """How often the threads of these processes have done so until now: what is idle does it no
    more."""
    statuses = [
        path.read_text() for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/status")
    ]
    return sum(int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for text in statuses)


def last_line(err: bytes) -> str:
    """What the launcher has said last."""
    return err.decode().rstrip("\n").rsplit("\n", 1)[-1]


def prefixed(out: bytes, rank: int, stream: str = "stdout") -> list[str]:
    """That rank's lines, without their prefixes."""
    prefix = f"[{rank}]<{stream}>:"
    return [
        line.removeprefix(prefix) for line in out.decode().splitlines() if line.startswith(prefix)
    ]
