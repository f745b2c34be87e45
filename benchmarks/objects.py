"""What the CPU half of a torch job costs over gloo and over hvdlite: objects, checkpoints, and the
sums of tensor parallelism. Both take turns in the same processes.

    benchmarks/objects                           two minutes; prints Markdown
    benchmarks/objects --output docs/benchmarks
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import launch
import machine
import report
from record import Record, end_in_order
from report import time_text

_HERE = Path(__file__).parent
_PACKAGES = ("hvdlite", "torch")
_TOKENS = re.compile(r"(gloo|hvdlite) +\d+ rank\(s\) +([\d.]+) tokens/s")
_ABOUT = """\
This page compares what a torch program does on CPUs over gloo and over hvdlite.
`benchmarks/objects` wrote it on {date}, on {cores} shared cores with these versions:
{versions}.

Both backends take turns in the same processes, block by block, each first in every other round.
A time is the median over {rounds} rounds of the slowest rank's time.
*gloo / hvdlite* is the median of the rounds' ratios, and in brackets the lowest and the highest:
above 1, hvdlite is faster.

- Objects: `torch.distributed`'s functions of these names.
  An object of 10 KB or more is a tensor.
  torch turns it into bytes and back, which takes most of the time of the large ones.
- Checkpoints: `torch.distributed.checkpoint.save` and `load`, into memory.
- Sums: what a layer that is shared out adds up for one token of a model of width 512.
- Tokens: `examples/torch_tensor_parallel.py`, 8 layers of width 512, one thread per rank.
"""


def measure(ranks: int, rounds: int) -> dict[str, Any]:
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="hvd-objects-", dir=memory) as folder:
        output = Path(folder, "found.json")
        _run(ranks, str(_HERE / "objects_worker.py"), str(output), str(rounds))
        found: dict[str, Any] = json.loads(output.read_text())
    tokens: dict[str, list[float]] = {}
    for _ in range(3):
        said = _run(ranks, str(_HERE.parent / "examples" / "torch_tensor_parallel.py"))
        for backend, speed in _TOKENS.findall(said):
            tokens.setdefault(backend, []).append(float(speed))
    return {"times": found, "tokens": tokens}


def _run(ranks: int, *program: str) -> str:
    done = subprocess.run(
        [launch.HVDLITERUN, "-np", str(ranks), sys.executable, "-W", "ignore", *program],
        capture_output=True, text=True, timeout=600, preexec_fn=partial(machine.go_first, False),
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{program[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def page(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    about = _ABOUT.format(cores=results["machine"]["cores"], versions=versions, **results["how"])
    parts = ["# Benchmarks: the CPU half of torch jobs", "", about]
    for ranks, found in results["ranks"].items():
        rows = []
        for name, ways in found["times"].items():
            ratios = [a / b for a, b in zip(ways["gloo"], ways["hvdlite"], strict=True)]
            ratio = f"{median(ratios):.1f} [{min(ratios):.1f}..{max(ratios):.1f}]"
            rows.append([name, *(time_text(median(ways[w])) for w in ("gloo", "hvdlite")), ratio])
        tokens = {way: median(found["tokens"][way]) for way in ("gloo", "hvdlite")}
        speeds = [f"{tokens[way]:.1f} per s" for way in tokens]
        rows.append(["tokens", *speeds, f"{tokens['hvdlite'] / tokens['gloo']:.1f}"])
        table = report.table(["", "gloo", "hvdlite", "gloo / hvdlite"], rows)
        parts += [f"## {ranks} ranks", "", table, ""]
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    end_in_order()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path, help="a folder for the page and its figures")
    given = parser.parse_args()
    machine.take_turns()
    how = {"date": time.strftime("%d %B %Y"), "rounds": given.rounds}
    found = {str(ranks): measure(ranks, given.rounds) for ranks in given.ranks}
    results = {"how": how, "ranks": found}
    if given.output is None:
        results |= {"machine": machine.features(), "versions": machine.versions(_PACKAGES)}
        print(page(results))
        return
    record = Record(given.output, "objects.json", _PACKAGES)
    record.results |= results
    record.publish("objects.md", page(record.results))


if __name__ == "__main__":
    main()
