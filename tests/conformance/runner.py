"""Runs a job of checks through a launcher and says for each check how it ended.

A check that fails on one rank, or hangs, ends its job; the rest continue in a new one. So each
check is blamed for itself alone, and all together cost few process starts.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import tier
from checks import BY_CTYPES
from checks.listing import listed
from launchers import HVDLITERUN, Launcher
from machine import PATIENCE_VARIABLE, within

from hvdlite.rendezvous import StoreServer, new_secret

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
_MARK = "HVDLITE_TEST_MARK"
# here: a child between fork and exec must not wait for a lock of the loader's
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class Configuration:
    """A communicator (what explains itself by this word), a number of ranks, and the knobs that are
    turned."""

    name: str
    communicator: str
    ranks: int
    hosts: tuple[str, ...] = ()  # the host that each rank pretends to be on; empty: all on this one
    environment: dict[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = ()  # empty: all
    tags: frozenset[str] = frozenset()  # not empty: only checks with one of these
    suite: str = ""  # see checks.SUITES
    launcher: Launcher = HVDLITERUN
    over_mpi: bool = False  # the communicator, or the part of it that is between hosts
    turns: int = 1  # below the tier `all` one run in so many makes a check here


@dataclass
class Outcome:
    """How one check ended: empty `error` means well."""

    error: str = ""
    skipped: str = ""  # why it is about nothing here
    seconds: float = 0.0


@dataclass
class Result:
    outcomes: dict[str, Outcome]
    seconds: float
    jobs: int
    leftovers: list[str]


def run(configuration: Configuration, checks: dict[str, float], limit: float) -> Result:
    """`checks`: names in order, with the longest each may take. `limit`: of a machine of its
    own."""
    limit = within(limit)
    start = time.monotonic()
    left = list(checks)
    outcomes: dict[str, Outcome] = {}
    leftovers: list[str] = []
    jobs = 0
    while left and time.monotonic() - start < limit:
        jobs += 1
        secret = new_secret()
        with (
            tempfile.TemporaryDirectory(prefix="hvdlite-conformance-") as directory,
            contextlib.closing(StoreServer(secret).start()) as store,
        ):
            agreement = {"address": store.address, "secret": secret.hex()}
            done = _job(
                configuration, left, Path(directory), agreement, limit - (time.monotonic() - start)
            )
        leftovers += done.pop("leftovers").error.splitlines() if "leftovers" in done else []
        if "init" in done:
            # Nothing can run: say so for every check, and do not try again for each.
            outcomes.update({name: done["init"] for name in left})
            break
        if not done:
            outcomes.update(
                {name: Outcome("the job ended without running anything") for name in left}
            )
            break
        outcomes.update(done)
        left = [name for name in left if name not in outcomes]
    for name in left:
        outcomes.setdefault(
            name, Outcome(f"not run: the checks before it took more than {limit:.0f} s")
        )
    return Result(outcomes, time.monotonic() - start, jobs, leftovers)


@functools.cache
def sources_without_module() -> str:
    """A folder with this hvdlite, but for the compiled module: Python then takes _core.py."""
    folder = Path(tempfile.mkdtemp(prefix="hvdlite-without-module-"))
    atexit.register(shutil.rmtree, folder)
    (folder / "hvdlite").mkdir()
    for part in (ROOT / "hvdlite").iterdir():
        if not part.name.startswith("_core.c"):
            (folder / "hvdlite" / part.name).symlink_to(part)
    return str(folder)


def _end_with_parent() -> None:
    """The launcher gets SIGTERM when the test run is killed, and a Ctrl-C that is ignored by
    nobody."""
    _LIBC.prctl(1, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _job(
    configuration: Configuration,
    names: list[str],
    directory: Path,
    agreement: dict[str, object],
    limit: float,
) -> dict[str, Outcome]:
    plan = {
        "rank_and_size": configuration.launcher.rank_and_size,
        "communicator": configuration.communicator,
        "over_mpi": configuration.over_mpi,
        "hosts": configuration.hosts,
        "environment": configuration.environment,
        "suite": configuration.suite,
        "checks": names,
        "listed": [check.name for check in listed(configuration.suite)],
        "agreement": agreement,
        "results": str(directory),
    }
    (directory / "plan.json").write_text(json.dumps(plan))
    mark = uuid.uuid4().hex
    clean = {
        k: v
        for k, v in os.environ.items()
        if k in (PATIENCE_VARIABLE, *tier.VARIABLES) or not k.startswith(("HVDLITE_", "HOROVOD_"))
    }
    sources = sources_without_module() if BY_CTYPES in configuration.environment else str(ROOT)
    path = os.pathsep.join(p for p in (sources, os.environ.get("PYTHONPATH", "")) if p)
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    # Importing a framework takes a busy machine long, and one rank longer than another.
    patience = {"HVDLITE_START_TIMEOUT": f"{within(30):g}"}
    process = subprocess.Popen(
        configuration.launcher.command_for(configuration.ranks)
        + [sys.executable, str(HERE / "worker.py"), str(directory / "plan.json")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=directory,
        env=clean
        | threads
        | patience
        | configuration.launcher.environment
        | {"PYTHONPATH": path, _MARK: mark},
        preexec_fn=_end_with_parent,
    )
    try:
        output, _ = process.communicate(timeout=max(limit, 1))
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        output += b"\n(the whole job took too long)"
    outcomes = _read(
        configuration, names, directory, output.decode(errors="replace"), process.returncode
    )
    remains = [f"process {line}" for line in _processes(mark)]
    if remains:
        outcomes["leftovers"] = Outcome("\n".join(remains))
    return outcomes


def _read(
    configuration: Configuration, names: list[str], directory: Path, output: str, returncode: int
) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    for rank in range(configuration.ranks):
        log = directory / f"log.{rank}"
        events = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        begun = ""
        for event in events:
            name = event["check"]
            if event["event"] == "begin":
                begun = name
                continue
            begun = ""
            outcome = outcomes.setdefault(name, Outcome())
            outcome.seconds = max(outcome.seconds, event["seconds"])
            outcome.skipped = event.get("skipped", "")
            if event["error"]:
                outcome.error += f"--- rank {rank}\n{event['error']}"
        if begun or not events:
            stacks = directory / f"stacks.{rank}"
            where = stacks.read_text() if stacks.exists() else ""
            outcome = outcomes.setdefault(begun or "init", Outcome())
            how = "hung here" if where else "ended here without a word"
            outcome.error += f"--- rank {rank} {how}\n{where}"
    for outcome in outcomes.values():
        if outcome.error:
            outcome.error += f"--- the job's output (exit code {returncode})\n{output[-4000:]}"
    if not outcomes.get("init", Outcome()).error:
        outcomes.pop("init", None)
    shutdown = outcomes.pop("shutdown", Outcome())
    if shutdown.error and names:
        outcomes.setdefault(names[-1], Outcome()).error += (
            "shutdown after this check failed\n" + shutdown.error
        )
    elif returncode and not any(o.error for o in outcomes.values()) and names[-1] in outcomes:
        outcomes[
            names[-1]
        ].error = f"all checks passed, but the job's exit code is {returncode}\n{output[-4000:]}"
    return outcomes


def _processes(mark: str) -> list[str]:
    """Who of the job is alive some seconds after its launcher's end, in which a machine may put
    aside who is ending; they are killed."""
    deadline = time.monotonic() + within(5)
    while True:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if f"{_MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        if not found or time.monotonic() > deadline:
            break
        time.sleep(0.02)  # poll
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return [str(pid) for pid in found]
