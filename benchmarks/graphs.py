"""Training inside graphs and compiled programs: hvdlite beside no communication at all, in one run,
taking turns.

benchmarks/train-graphs             docs/benchmarks/graphs.md and docs/benchmarks/data/graphs.json
benchmarks/train-graphs --rounds 2 --output /tmp/here
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import graphs_report
import launch
import machine
import training_options
from group import Group
from launch import Backend
from record import Record

FRAMEWORKS = ("tensorflow", "torch", "jax")
WAYS = ("none", "hvdlite")
_HVDLITE = (launch.HVDLITERUN, "-np", "{ranks}")
# Steps of a block: about half a second.
STEPS = {"gradients": 100, "mlp": 8, "conv": 8}
FIRST_STEPS = 3
GROWTH_STEPS = 2000


def workloads_of(framework: str) -> list[str]:
    return [name for name in STEPS if name != "gradients" or framework != "torch"]


class Measurement:
    def __init__(self, ranks: int, frameworks: list[str], quiet: float, scheduling: str) -> None:
        self._quiet = quiet
        self._groups: dict[tuple[str, str], Group] = {}
        try:
            for framework in frameworks:
                for way in WAYS:
                    launcher = _HVDLITE if way == "hvdlite" else ()
                    backend = Backend(f"{way}-{framework}", f"{way}-{framework}", way, launcher)
                    self._groups[framework, way] = Group(backend, ranks, "graphs_worker.py")
            answers = [
                group.ask(op="schedule", wanted=scheduling)[0] for group in self._groups.values()
            ]
        except BaseException:
            self.close()
            raise
        self.scheduling = answers[0]["scheduling"]
        self.cases = [(f, name) for f in frameworks for name in workloads_of(f)]

    def blocks(self, rounds: int) -> dict[str, dict[str, list[Any]]]:
        found: dict[str, dict[str, list[Any]]] = {
            f"{f} {name}": {way: [] for way in WAYS} for f, name in self.cases
        }
        for number in range(rounds):
            for framework, name in self.cases:
                for way in WAYS:
                    machine.wait_for_quiet(self._quiet)
                    order = {
                        "op": "train",
                        "workload": name,
                        "warmup": 2 if number == 0 else 1,
                        "steps": STEPS[name],
                    }
                    block = self._groups[framework, way].block(**order)
                    if "error" in block:
                        raise SystemExit(f"{way}, {framework}, {name}: {block['error']}")
                    found[f"{framework} {name}"][way].append(block)
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
        return found

    def first_steps(self) -> dict[str, dict[str, list[float]]]:
        return {
            f"{framework} {name}": {
                way: [
                    self._slowest(framework, way, op="first", workload=name)
                    for _ in range(FIRST_STEPS)
                ]
                for way in WAYS
            }
            for framework, name in self.cases
        }

    def growth(self) -> dict[str, dict[str, float]]:
        return {
            framework: {
                way: max(
                    a["bytes"]
                    for a in self._groups[framework, way].ask(op="growth", steps=GROWTH_STEPS)
                )
                for way in WAYS
            }
            for framework, name in self.cases
            if name == "gradients"
        }

    def _slowest(self, framework: str, way: str, **order: Any) -> float:
        answers = self._groups[framework, way].ask(**order)
        if errors := [a["error"] for a in answers if "error" in a]:
            raise SystemExit(f"{way}, {framework}, {order}: {errors[0]}")
        return max(answer["seconds"] for answer in answers)

    def close(self) -> None:
        for group in self._groups.values():
            group.close()


def main() -> None:
    parser = training_options.parser(__doc__)
    parser.add_argument("--frameworks", nargs="+", default=list(FRAMEWORKS), choices=FRAMEWORKS)
    given = parser.parse_args()
    machine.take_turns()
    packages = (
        "hvdlite",
        "tensorflow_cpu",
        "tensorflow",
        "torch",
        "jax",
        "jaxlib",
        "keras",
        "numpy",
    )
    record = Record(given.output, "graphs.json", packages)
    record.results |= {"ranks": given.ranks, "rounds": given.rounds, "cores": os.cpu_count()}
    measurement = Measurement(given.ranks, given.frameworks, given.quiet, given.scheduling)
    try:
        record.results |= {
            "scheduling": measurement.scheduling,
            "blocks": measurement.blocks(given.rounds),
            "first": measurement.first_steps(),
            "growth": measurement.growth(),
        }
    finally:
        measurement.close()
    notes = Path(__file__).with_name("graphs_notes.md").read_text()
    record.publish("graphs.md", graphs_report.write(record.results, notes))
    record.publish("notes/graphs.md", graphs_report.targets_of(record.results, notes))


if __name__ == "__main__":
    main()
