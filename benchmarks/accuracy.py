"""The accuracy that methods reach which send less or take larger batches, on handwritten digits.

benchmarks/accuracy                     writes docs/benchmarks/data/accuracy.json and
                                        docs/benchmarks/accuracy.md
benchmarks/accuracy --only LARS         prints the lines of these methods
benchmarks/accuracy --page              writes the page anew from the data
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from accuracy_methods import METHODS, RANKS

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs/benchmarks/data/accuracy.json"
PAGE = ROOT / "docs/benchmarks/accuracy.md"
HERE = Path(__file__).resolve().parent


def measure(seeds: int, only: str) -> list[dict[str, Any]]:
    command = ["hvdliterun", "-np", str(RANKS), sys.executable,
               str(HERE / "accuracy_worker.py"), str(seeds), only]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HVDLITE_DRIFT": "off"}
    found = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=HERE
    ) as job:
        assert job.stdout is not None
        for line in job.stdout:
            text = line[line.index("{") :] if "{" in line else ""
            if text:
                found.append(json.loads(text))
                print(text.strip(), flush=True)
    if job.returncode:
        sys.exit(f"the job has failed with {job.returncode}")
    return found


def page(results: dict[str, Any]) -> str:
    lines = [
        "# Benchmarks: accuracy",
        "",
        "<!-- Written by benchmarks/accuracy from docs/benchmarks/data/accuracy.json. -->",
        "",
        "This page shows what [methods that send less](../guides/communicating-less.md) reach on "
        "handwritten digits.",
        f"`benchmarks/accuracy` wrote it on {results['date']}, with {results['ranks']} ranks and "
        f"{results['seeds']} seeds.",
        "The network is 64-256-256-10 (85,002 parameters).",
        "1437 images train it and 360 test it, so one image is 0.28 points.",
        "SGD has momentum 0.9 and a rate that falls from 0.1 as a cosine.",
        "A rank's batch has 16 images, and the job trains for 60 epochs, unless the row says "
        "otherwise; rows of batch 704 train for 15 epochs.",
        "*Ratio* is the bytes of all gradients over the bytes that `hvd.metrics()` has counted.",
        "*Simulated* is what the same method reached in one process that simulated the ranks.",
        "The task is small: take the differences for a hint, and try your own model.",
        "",
        "| method | accuracy (standard deviation) | ratio | simulated | asked for |",
        "|---|---|---|---|---|",
    ]
    for method in METHODS:
        rows = [row for row in results["rows"] if row["method"] == method.name]
        if not rows:
            continue
        reached = [row["accuracy"] for row in rows]
        spread = stdev(reached) if len(reached) > 1 else 0.0
        least = "" if method.least is None else f"≥ {method.least}"
        simulated = "" if method.simulated is None else f"{method.simulated:.2f}"
        lines.append(
            f"| {method.name} | {mean(reached):.2f} ({spread:.2f}) | "
            f"{mean(row['ratio'] for row in rows):.1f} | {simulated} | {least} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="a pattern of methods' names")
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    if not args.page:
        rows = measure(args.seeds, args.only)
        if args.only:
            return
        date = f"{datetime.date.today():%d %B %Y}".lstrip("0")
        results = {"date": date, "ranks": RANKS, "seeds": args.seeds, "rows": rows}
        DATA.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(page(json.loads(DATA.read_text())))


if __name__ == "__main__":
    main()
