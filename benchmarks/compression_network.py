"""How long the gradients of a ResNet-50 take on slow networks, compressed and not.

    benchmarks/compression-network [--rates 100 400 0] [--hosts 2 4] [--output docs/benchmarks]

It needs root: hosts are network namespaces of this machine, with one rank each. tc's tbf limits
their cards to so many Mbit/s; 0 means as fast as it goes. A run of all rows takes a quarter of an
hour.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import compression_network_report
import machine
from compression_network_worker import METHODS
from record import Record, end_in_order
from shaped import Shaped

_WORKER = Path(__file__).parent / "compression_network_worker.py"
_PACKAGES = ("hvdlite", "torch")
_PATIENCE = 600.0
#: Steps of each method; a dense one takes ten seconds at 100 Mbit/s.
_TURNS = {100: 3, 400: 7, 0: 11}


def measure(hosts: int, megabits: int, methods: list[str], in_turns: bool) -> list[dict[str, Any]]:
    """What rank 0 tells of each method."""
    plan: dict[str, Any] = {
        "size": hosts,
        "port": 4711,
        "secret": secrets.token_hex(32),
        "methods": methods,
        "turns": _TURNS.get(megabits, 5),
    }
    # A rank believes that it has this machine's processors for itself, and would spin.
    ours = {"OMP_NUM_THREADS": "1", "HVDLITE_SPIN_MICROSECONDS": "0"}
    with Shaped(hosts, megabits, offload=True) as network:
        plan["address"] = network.address(0)
        ranks: list[subprocess.Popen[str]] = []
        try:
            for rank in range(hosts):
                command = [*network.prefix(rank), sys.executable, str(_WORKER)]
                ranks.append(
                    subprocess.Popen(
                        [*command, json.dumps(plan | {"rank": rank})],
                        env=os.environ | ours | {"HVDLITE_HOST_ID": f"host{rank}"},
                        stdout=subprocess.PIPE,
                        text=True,
                        preexec_fn=partial(machine.go_first, in_turns, os.SCHED_RR),
                    )
                )
            outputs = [rank.communicate(timeout=_PATIENCE)[0] for rank in ranks]
        finally:
            for process in ranks:
                process.kill()
                process.wait()
    if any(rank.returncode for rank in ranks):
        raise SystemExit("a rank has failed")
    return [json.loads(line) for line in outputs[0].splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 400, 0], help="Mbit/s")
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument(
        "--in-turns",
        action="store_true",
        help="ranks as SCHED_RR, which share the processors before all others, not at nice -18",
    )
    parser.add_argument("--output", type=Path, help="a folder for the page and its figures")
    given = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("network namespaces need root")
    end_in_order()
    machine.take_turns()
    found: dict[str, Any] = {}
    for megabits in given.rates:
        for hosts in given.hosts:
            name = compression_network_report.name_of(megabits, hosts)
            with machine.short_turns():
                rows = measure(hosts, megabits, given.methods, given.in_turns)
            found[name] = {"megabits": megabits, "hosts": hosts, "rows": rows}
            print(compression_network_report.section(name, found[name]), flush=True)
    if given.output is not None:
        record = Record(given.output, "compression-network.json", _PACKAGES)
        record.results["networks"] = record.results.get("networks", {}) | found
        record.results["date"] = time.strftime("%d %B %Y")
        record.results["scheduling"] = "as SCHED_RR" if given.in_turns else "at nice -18"
        notes = (_WORKER.parent / "compression_network_notes.md").read_text()
        page = compression_network_report.write(record.results, notes)
        record.publish("compression-network.md", page)


if __name__ == "__main__":
    main()
