"""What watching costs a job that trains: the stall watch, the drift guard, `hvdlite top`, metrics,
progress and the NaN watch.

    benchmarks/watching [--rounds 40] [--ranks 2] [--output docs/benchmarks]

A job for each way is there from the beginning. In each round every job trains for a second, in
another order, and all processes of the other jobs are stopped meanwhile. So what a job does by the
second, such as reports, is part of its own steps. A way's cost is the median, over the rounds, of
the processor time of its processes (ranks, hvdliterun, `hvdlite top`) divided by that of the job
without anything: what others do on the machine changes it less than the time of a step.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import machine
from record import Record, end_in_order
from report import table, time_text

_HERE = Path(__file__).parent
_MARK = "HVDLITE_BENCHMARK_WATCHING"
_OFF = {"HVDLITE_DRIFT": "off", "HVDLITE_STALL_CHECK_DISABLE": "1"}
_LAP_SECONDS = 1.0


@dataclass(frozen=True)
class Way:
    variables: dict[str, str] = field(default_factory=lambda: dict(_OFF))
    flags: tuple[str, ...] = ()
    progress: bool = False
    top: bool = False


_OUTLETS = ("--metrics-port", "0", "--metrics-file", "run.jsonl", "--report", "run.html")
NOTHING = "nothing"
WAYS = {
    NOTHING: Way(),
    "nothing, again": Way(),
    "stall watch": Way({"HVDLITE_DRIFT": "off"}),
    "drift guard": Way({"HVDLITE_STALL_CHECK_DISABLE": "1"}),
    "`hvdlite top` attached": Way(top=True),
    "`--metrics-port`, `--metrics-file`, `--report`": Way(flags=_OUTLETS),
    "`hvd.progress()`": Way(progress=True),
    "all of these": Way({}, _OUTLETS, progress=True, top=True),
    "`HVDLITE_NAN_WATCH=1`": Way(_OFF | {"HVDLITE_NAN_WATCH": "1"}),
}


class Job:
    """Trains when it is told to, and is stopped otherwise."""

    def __init__(self, way: Way, ranks: int, folder: Path) -> None:
        self._mark = f"{_MARK}={folder.name}"
        folder.mkdir()
        for rank in range(ranks):
            os.mkfifo(folder / f"go.{rank}")
            os.mkfifo(folder / f"done.{rank}")
        environment = os.environ | {
            "PYTHONPATH": f"{_HERE.parent}:{_HERE}",
            "HVDLITE_HEARTBEAT_SECONDS": "0",  # it is stopped for longer
            _MARK: folder.name,
        }
        environment |= way.variables
        kind = "progress" if way.progress else "plain"
        worker = [sys.executable, str(_HERE / "watching_worker.py"), str(folder), kind]
        command = ["-m", "hvdlite.launch", "-np", str(ranks), *way.flags, *worker]
        self._log = (folder / "log").open("wb")
        self._processes = [self._start(command, folder, environment)]
        self._orders: list[TextIO] = [(folder / f"go.{rank}").open("w") for rank in range(ranks)]
        self._done = [(folder / f"done.{rank}").open() for rank in range(ranks)]
        if way.top:
            pid = str(self._processes[0].pid)
            top = ["-m", "hvdlite.tools", "top", pid, "--json"]
            self._processes.append(self._start(top, folder, environment))

    def _start(
        self, command: Sequence[str], folder: Path, environment: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def train(self, steps: int) -> tuple[float, float]:
        """Seconds of a step: of time, and of processors."""
        before = self._processor_seconds()
        for order in self._orders:
            print(steps, file=order, flush=True)
        took = max(float(each.readline()) for each in self._done)
        return took / steps, (self._processor_seconds() - before) / steps

    def _processor_seconds(self) -> float:
        found = 0
        for pid in self._pids():
            for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError):
                    found += int(thread.read_text().split()[0])
        return found / 1e9

    def signal(self, number: int) -> None:
        """To all its processes."""
        for pid in self._pids():
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def _pids(self) -> Iterator[int]:
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                if self._mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)

    def end(self) -> None:
        self.signal(signal.SIGCONT)
        for order in self._orders:
            order.close()
        for process in self._processes:
            process.wait(60)
        for each in self._done:
            each.close()
        self._log.close()


def measure(ranks: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """By way, what train() has returned in each round."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        jobs: dict[str, Job] = {}
        for number, (name, way) in enumerate(WAYS.items()):
            jobs[name] = Job(way, ranks, Path(folder) / str(number))
            stack.callback(jobs[name].end)
            jobs[name].train(20)
            if not way.top:  # which attaches first
                jobs[name].signal(signal.SIGSTOP)
        time.sleep(3)
        for job in jobs.values():
            job.signal(signal.SIGSTOP)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
        steps = 20
        for turn in range(rounds + 1):
            order = list(jobs)
            random.shuffle(order)
            for name in order:
                jobs[name].signal(signal.SIGCONT)
                took = jobs[name].train(steps)
                jobs[name].signal(signal.SIGSTOP)
                if turn:
                    found[name].append(took)
            if not turn:
                steps = max(1, round(_LAP_SECONDS / took[0]))
    return found


def page(found: dict[str, list[tuple[float, float]]], ranks: int, load: str) -> str:
    rows = []
    for name, laps in found.items():
        ratios = [a[1] / b[1] for a, b in zip(laps, found[NOTHING], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        # of a median, from the quartiles
        error = 1.25 * (high - low) / 1.35 / len(ratios) ** 0.5
        cost = "" if name == NOTHING else f"{100 * (middle - 1):+.2f} % ± {100 * error:.2f}"
        spread = "" if name == NOTHING else f"{low:.3f} to {high:.3f}"
        times, processor = (time_text(statistics.median(each)) for each in zip(*laps, strict=True))
        rows.append([name, times, processor, cost, spread])
    about = machine.features()
    return f"""# What watching costs

{ranks} ranks on {about["cores"]} cores, {len(found[NOTHING])} rounds; {load}.
A step is the exchange of 161 gradients, 12.8 MB, with their update, and nothing is computed:
no step of a real model is as short beside what watching adds.
The cost is the median of the ratios of processor time to the job without anything, with the error
of that median.
Ranks that wait spin, so processor time depends on the load, too.
*Nothing, again* is the same job once more: what differs there is the machine.

{table(["what is on", "step", "processors", "cost", "quartiles of the ratio"], rows)}

`benchmarks/watching` writes this page.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--output", type=Path, default=_HERE.parent / "docs" / "benchmarks")
    given = parser.parse_args()
    end_in_order()
    record = Record(given.output, "watching.json", ("hvdlite", "torch"))
    before = os.getloadavg()[0]
    found = measure(given.ranks, given.rounds)
    load = f"load average before {before:.1f}, after {os.getloadavg()[0]:.1f}"
    record.results |= {"ranks": given.ranks, "load": load, "seconds of a step": found}
    record.publish("watching.md", page(found, given.ranks, load))


if __name__ == "__main__":
    main()
