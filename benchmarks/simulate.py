"""What hvdlite.tools.simulate predicts beside what shaped networks take.

    benchmarks/simulate [--fifo] [--output docs/benchmarks]       root; five minutes
    benchmarks/simulate --many 1024 --negotiation PROGRAM [--output docs/benchmarks]

Ranks run in network namespaces whose cards tc's tbf limits to 100 Mbit/s, so that the processors
are not the limit. They run at nice -18 where that is permitted, or as SCHED_FIFO with `--fifo`, for
a machine that others use, too.

With --many, no networks are shaped: the page gets the costs of negotiation, as the built
cpp/negotiation_bench.cc measures them, and of launching.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import machine
import simulate_many
import simulate_report
from record import Record, end_in_order
from shaped import Shaped
from simulate_jobs import JOBS, MEGABITS, SIZES, STEPS, Job, predicted_step, small_resnet

from hvdlite.tools.simulate import timeline

_HERE = Path(__file__).parent
_PACKAGES = ("hvdlite", "torch")
_PATIENCE = 300.0
_PORT = 4711
# Each of them is a Python of its own.
_MOST_THAT_MEET = 256


class Runner:
    def __init__(self, repeats: int, fifo: bool) -> None:
        self.repeats = repeats
        self._fifo = fifo

    def measure(
        self, job: Job, cases: Sequence[Any], megabits: int = MEGABITS, timeline: str = ""
    ) -> list[list[float]]:
        """For each case the seconds of its turns, from the common start to the last rank's end.
        With a timeline, turn follows turn as in training."""
        plan = {
            "size": len(job.places),
            "port": _PORT,
            "secret": secrets.token_hex(32),
            "library": job.library,
            "what": job.what,
            "dtype": job.dtype,
            "cases": cases,
            "repeats": self.repeats,
            "apart": not timeline,
        }
        recorded = {"HVDLITE_TIMELINE": timeline} if timeline else {}
        with Shaped(len(set(job.places)), megabits) as network:
            plan["address"] = network.address(0)
            ranks: list[subprocess.Popen[str]] = []
            try:
                for rank, host in enumerate(job.places):
                    own = {"HVDLITE_HOST_ID": f"host{host}"} | job.environment | recorded
                    ranks.append(self._start(network.prefix(host), plan | {"rank": rank}, own))
                outputs = [_lines(rank) for rank in ranks]
            finally:
                for process in ranks:
                    process.kill()
                    process.wait()
        return [_seconds(turns) for turns in zip(*outputs, strict=True)]

    def _start(
        self, prefix: Sequence[str], plan: dict[str, Any], environment: dict[str, str]
    ) -> subprocess.Popen[str]:
        # A rank believes that it has this machine's processors for itself, and would spin.
        ours = {
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": "1",
            "HVDLITE_SPIN_MICROSECONDS": "0",
        }
        return subprocess.Popen(
            [*prefix, sys.executable, str(_HERE / "simulate_worker.py"), json.dumps(plan)],
            env=os.environ | ours | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(machine.go_first, self._fifo),
        )


def _lines(rank: subprocess.Popen[str]) -> list[Any]:
    output, errors = rank.communicate(timeout=_PATIENCE)
    if rank.returncode:
        raise SystemExit(f"a rank ended with status {rank.returncode}:\n{errors[-2000:]}")
    return [json.loads(line) for line in output.splitlines()]


def _seconds(ranks: Sequence[Sequence[tuple[float, float]]]) -> list[float]:
    """A turn in which the ranks did not begin together is left out."""
    seconds = []
    for turn in zip(*ranks, strict=True):
        begins = [begin for begin, _ in turn]
        if max(begins) - min(begins) < 1e-3:
            seconds.append(max(end for _, end in turn) - max(begins))
    return seconds


def latency_of(small: Sequence[float]) -> float:
    """From allreduces of 4 bytes: a request, a decision and the data."""
    return min(small) / 3


def collectives(runner: Runner, chosen: Sequence[str]) -> dict[str, Any]:
    found = {}
    for job in JOBS:
        if chosen and not any(part in job.name for part in chosen):
            continue
        small, *large = runner.measure(job, [[size] for size in (4, *SIZES)])
        latency = latency_of(small)
        rows = [
            {"bytes": size, "seconds": seconds, "predicted": job.predicted(size, latency)}
            for size, seconds in zip(SIZES, large, strict=True)
        ]
        found[job.name] = {"latency": latency, "rows": rows}
        shown = ", ".join(f"{min(r['seconds']):.3f} s for {r['predicted']:.3f} s" for r in rows)
        print(f"{job.name}: {shown}", flush=True)
    return found


def steps(runner: Runner, chosen: Sequence[str]) -> dict[str, Any]:
    """Steps of training, predicted from a timeline that two ranks with a fast network recorded."""
    jobs = [job for job in STEPS if not chosen or any(part in job.name for part in chosen)]
    if not jobs:
        return {}
    alone = small_resnet()
    case = [[[g.name, g.size, g.ready] for g in alone.gradients], alone.seconds]
    with tempfile.TemporaryDirectory(prefix="hvdlite-simulate-") as folder:
        file = Path(folder, "timeline.json")
        runner.measure(STEPS[0], [case], megabits=4000, timeline=str(file))
        recorded = timeline.read(file.read_text()).schedule
    found = {}
    for job in jobs:
        (seconds,) = runner.measure(job, [case])
        (small,) = runner.measure(Job(job.name, job.places), [[4]])
        latency = latency_of(small)
        found[job.name] = {
            "seconds": seconds,
            "alone": alone.seconds,
            "from the timeline": predicted_step(job, recorded, latency),
            "from the table": predicted_step(job, alone, latency),
        }
        print(job.name, found[job.name], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7, help="turns of each row (default 7)")
    parser.add_argument(
        "--jobs", nargs="+", default=[], metavar="NAME", help="only those with this in their name"
    )
    parser.add_argument("--fifo", action="store_true", help="as SCHED_FIFO")
    parser.add_argument("--many", type=int, metavar="N", help="measure up to N ranks without data")
    parser.add_argument("--negotiation", type=Path, metavar="PROGRAM", help="negotiation_bench")
    parser.add_argument("--output", type=Path, help="a folder for the page and its figures")
    given = parser.parse_args()
    end_in_order()
    machine.take_turns()
    publish(many(given) if given.many else shaped_networks(given), given.output)


def shaped_networks(given: argparse.Namespace) -> dict[str, Any]:
    if os.geteuid() != 0:
        raise SystemExit("network namespaces need root")
    runner = Runner(given.repeats, given.fifo)
    return {
        "date": time.strftime("%d %B %Y"),
        "scheduling": "SCHED_FIFO" if given.fifo else "nice -18",
        "collectives": collectives(runner, given.jobs),
        "steps": steps(runner, given.jobs),
    }


def many(given: argparse.Namespace) -> dict[str, Any]:
    counts = [1 << power for power in range(1, given.many.bit_length())]
    results: dict[str, Any] = {"launch": simulate_many.launches(counts, _MOST_THAT_MEET)}
    if given.negotiation is not None:
        results["negotiation"] = simulate_many.negotiation(given.negotiation, given.many)
    return results


def publish(results: dict[str, Any], output: Path | None) -> None:
    notes = (_HERE / "simulate_notes.md").read_text()
    if output is None:
        results |= {"machine": machine.features(), "versions": machine.versions(_PACKAGES)}
        print(simulate_report.write(results, notes))
        return
    record = Record(output, "simulate.json", _PACKAGES)
    for part in ("collectives", "steps"):  # the rows of other jobs stay
        results[part] = record.results.get(part, {}) | results.get(part, {})
    record.results |= results
    simulate_report.draw(record.results, output)
    record.publish("simulate.md", simulate_report.write(record.results, notes))


if __name__ == "__main__":
    main()
