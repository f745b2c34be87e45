"""What deaths and newcomers cost a job that trains, and what its boundaries cost.

    benchmarks/elastic [--deaths 20] [--torchrun 5] [--output docs/benchmarks]
    benchmarks/elastic --jobs trainers --torch-2.14 PYTHON      inside trainers, and beside them
                                                                torch's enable_reconfigure

Ranks end themselves by SIGKILL in the middle of the training. torchrun restarts the same program,
which then reads its last checkpoint. Jobs run at nice -18 where that is permitted, or as SCHED_FIFO
with `--fifo`, for a machine that others use, too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import elastic_report
import launch
import machine
from record import Record, end_in_order

_HERE = Path(__file__).parent
_WORKER = str(_HERE / "elastic_worker.py")
_TRAINERS_WORKER = str(_HERE / "elastic_trainers.py")
_PACKAGES = ("hvdlite", "torch")
Note = dict[str, Any]

# The ssh there stays on this host.
_PRETEND = {"PATH": f"{_HERE / 'pretended_hosts'}:{os.environ['PATH']}"}
# By name: ranks, what surrounds them, and more flags of hvdliterun.
JOBS: dict[str, tuple[int, dict[str, str], tuple[str, ...]]] = {
    "2 ranks": (2, {}, ()),
    "3 ranks": (3, {}, ()),
    "4 ranks": (4, {}, ()),
    "4 ranks over TCP": (4, {"HVDLITE_CPU_OPERATIONS": "net"}, ()),
    "2 × 2 ranks, pretended hosts": (4, _PRETEND, ("-H", "localhost:2,other:2")),
}
LARGE_JOB = "2 ranks, 102 MB"
# By name: the way of elastic_trainers.py, and the environment.
TRAINERS: dict[str, tuple[str, dict[str, str]]] = {
    "DistributedDataParallel, `going_on()`": ("ddp", {}),
    "Lightning, `HvdliteStrategy(elastic=True)`": ("lightning", {}),
    "Transformers, `elastic(trainer)`": ("transformers", {}),
    **{
        f"Keras on {backend}, `fit()`": ("keras", {"KERAS_BACKEND": backend})
        for backend in ("torch", "tensorflow", "jax")
    },
}
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
SMALL = {"width": 256, "layers": 4}  # 1 MB
LARGE = {"width": 2524, "layers": 4}  # 102 MB
NORMS = {"norms": 52, "features": 598}  # 156 buffers of 243 KiB


def hvdliterun(ranks: int, *flags: str) -> list[str]:
    cooldown = ("--blacklist-cooldown-range", "0.05", "0.1")
    job = ("-np", str(ranks), "--min-np", "1", *cooldown, *flags)
    return [launch.HVDLITERUN, *job, sys.executable]


def torchrun(ranks: int, restarts: int) -> list[str]:
    folder = Path(sys.executable).parent
    count = ("--nproc-per-node", str(ranks), "--max-restarts", str(restarts))
    return [str(folder / "torchrun"), "--standalone", *count]


class Runner:
    def __init__(self, fifo: bool) -> None:
        self.fifo = fifo

    def run(
        self,
        command: Sequence[str],
        way: str,
        plan: Note,
        environment: Mapping[str, str] = MappingProxyType({}),
        patience: float = 900.0,
        may_fail: bool = False,
        worker: str = _WORKER,
    ) -> list[Note]:
        """All that the ranks have noted, in order of time."""
        with tempfile.TemporaryDirectory(prefix="hvd-elastic-") as folder:
            Path(folder, "plan.json").write_text(json.dumps(plan))
            with Path(folder, "output").open("wb") as output:
                process = subprocess.Popen(
                    [*command, worker, way, f"{folder}/plan.json"],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
                    start_new_session=True,
                    preexec_fn=partial(machine.go_first, self.fifo),
                )
                self._wait(process, patience)
            if process.returncode and not may_fail:
                said = Path(folder, "output").read_text(errors="replace")[-2000:]
                raise SystemExit(
                    f"{' '.join(command)} ended with status {process.returncode}:\n{said}"
                )
            return _notes_in(folder)

    @staticmethod
    def _wait(process: subprocess.Popen[bytes], patience: float) -> None:
        """Ends it after that."""
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--deaths", type=int, default=20, help="of each job (default 20)")
    parser.add_argument("--torchrun", type=int, default=5, help="restarts of torchrun (default 5)")
    parser.add_argument(
        "--jobs",
        nargs="+",
        default=[],
        metavar="NAME",
        help='only those whose name has one of these in it; "costs" is what boundaries cost',
    )
    parser.add_argument("--output", type=Path, help="a folder for the page and its figures")
    parser.add_argument(
        "--torch-2.14", dest="newer", metavar="PYTHON", default="",
        help="with torch 2.14 or newer and hvdlite, for enable_reconfigure",
    )  # fmt: skip
    parser.add_argument("--fifo", action="store_true", help="as SCHED_FIFO")
    given = parser.parse_args()
    end_in_order()
    machine.take_turns()
    results = measure(given, Runner(given.fifo))
    publish(results, given.output, given.jobs)


def measure(given: argparse.Namespace, runner: Runner) -> Note:
    run = runner.run
    results: Note = {"deaths": {}, "growth": {}, "date": time.strftime("%d %B %Y")}
    results["scheduling"] = "SCHED_FIFO" if given.fifo else "nice -18"
    plan = {"deaths": given.deaths, "steps": 20, **SMALL}
    for name, (ranks, environment, flags) in JOBS.items():
        if _chosen(name, given.jobs):
            notes = run(hvdliterun(ranks, *flags), "hvdlite", plan | {"ranks": ranks}, environment)
            results["deaths"][name] = elastic_report.deaths(notes)
            results["growth"][name] = elastic_report.growths(notes)
            if given.torchrun and not environment:
                command = torchrun(ranks, 5 * given.torchrun)
                less = plan | {"ranks": ranks, "deaths": given.torchrun, "gloo_seconds": 30}
                patience = 60.0 + 20 * given.torchrun
                notes = run(command, "torchrun", less, patience=patience, may_fail=True)
                results["deaths"][f"torchrun, {name}"] = elastic_report.deaths(notes)
    if _chosen("trainers", given.jobs):
        results["trainers"] = _trainers(given, runner)
    if _chosen(LARGE_JOB, given.jobs):
        large = {"deaths": max(1, given.deaths // 4), "steps": 5, "ranks": 2, **LARGE}
        notes = run(hvdliterun(2), "hvdlite", large)
        results["growth"][LARGE_JOB] = elastic_report.growths(notes)
        results["transfers"] = [n["bytes"] / n["seconds"] for n in notes if n["what"] == "transfer"]
    if _chosen("costs", given.jobs):
        costs = {"commits": 20, "step_turns": 2000, **NORMS, **LARGE}
        notes = run(hvdliterun(2), "costs", costs)
        for what in ("commit", "step", "copy"):
            results[what] = [n["seconds"] for n in notes if n["what"] == what]
    return results


def _trainers(given: argparse.Namespace, runner: Runner) -> Note:
    """Seconds from a death to the next step of the last of those that go on."""
    found = {}
    plan = {"deaths": given.deaths, "steps": 20, "ranks": 3}
    for name, (way, environment) in TRAINERS.items():
        notes = runner.run(hvdliterun(3), way, plan, _QUIET | environment, worker=_TRAINERS_WORKER)
        found[name] = elastic_report.next_steps(notes)
    for backend in ("hvdlite", "gloo") if given.newer else ():
        seconds = []
        for number in range(given.deaths):
            notes = _by_hand(given.newer, backend, plan | {"dies": (2, 0, 1)[number % 3]}, runner)
            seconds += elastic_report.next_steps(notes)
        found[f"{backend}'s enable_reconfigure, torch 2.14"] = seconds
    return found


def _by_hand(python: str, backend: str, plan: Note, runner: Runner) -> list[Note]:
    """Three processes without a launcher."""
    with tempfile.TemporaryDirectory(prefix="hvd-elastic-") as folder:
        ranks = []
        for rank in range(plan["ranks"]):
            path = Path(folder, f"plan.{rank}.json")
            path.write_text(json.dumps(plan | {"rank": rank}))
            ranks.append(
                subprocess.Popen(
                    [python, _TRAINERS_WORKER, backend, str(path)],
                    env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(_HERE.parent)},
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    preexec_fn=partial(machine.go_first, runner.fifo),
                )
            )  # fmt: skip
        for rank in ranks:
            try:
                rank.wait(120)
            finally:
                rank.kill()
        return _notes_in(folder)


def _notes_in(folder: str) -> list[Note]:
    notes = [
        json.loads(line)
        for path in Path(folder).glob("notes.*")
        for line in path.read_text().splitlines()
    ]
    return sorted(notes, key=lambda note: note["at"])


def _chosen(name: str, jobs: Sequence[str]) -> bool:
    return not jobs or any(part in name for part in jobs)


def publish(results: Note, output: Path | None, jobs: Sequence[str]) -> None:
    notes = (_HERE / "elastic_notes.md").read_text()
    if output is None:
        results = results | {"machine": machine.features(), "versions": machine.versions(_PACKAGES)}
        print(elastic_report.write(results, notes))
        return
    record = Record(output, "elastic.json", _PACKAGES)
    if jobs:  # the rows of other jobs stay
        for part in ("deaths", "growth"):
            results[part] = record.results.get(part, {}) | results[part]
        before = record.results.get("scheduling", "").split(" or ")
        both = dict.fromkeys([*filter(None, before), results["scheduling"]])
        results["scheduling"] = " or ".join(both)
    record.results |= results
    elastic_report.draw(record.results, output)
    record.publish("elastic.md", elastic_report.write(record.results, notes))
    record.publish("notes/elastic.md", elastic_report.targets_of(record.results, notes))


if __name__ == "__main__":
    main()
