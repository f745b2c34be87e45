"""Autotuning beside the defaults, on networks of several speeds.

    benchmarks/autotune [--seconds 60] [--hosts 4] [--rates 25mbit 100mbit 1gbit]

Hosts are network namespaces of this machine (root only), each with one rank, and `tc tbf` limits
what each sends. Two jobs run in turns: one with the defaults, one that tunes itself. Each does the
same steps for --seconds; of the job that tunes itself the last third counts as the result, and the
whole as what searching costs. Prints a table in Markdown, with the machine's load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("", "conformance", "multiprocess")]
sys.path[:0] = [str(ROOT)]

from bare_ranks import Ranks  # noqa: E402
from network import Network, why_not  # noqa: E402

# A step in words, and its program. Blocks of steps are timed on rank 0.
STEPS = {
    "20 blocking sums of 16 KiB": """
tensors = [np.ones(4096, np.float32) for _ in range(20)]
def step():
    for i, tensor in enumerate(tensors): hvd.allreduce(tensor, op=hvd.Sum, name=str(i))
""",
    "60 gradients, 1 to 500 KB, at once": """
tensors = [np.ones(125000 if i % 12 == 0 else 250 * (i + 1), np.float32) for i in range(60)]
def step():
    handles = [hvd.allreduce_async(t, op=hvd.Sum, name=str(i)) for i, t in enumerate(tensors)]
    for handle in handles: hvd.synchronize(handle)
""",
}
PROGRAM = """
end_after(3600)
hvd.init()
{step}
step()
hvd.barrier()
begin, last, steps, over = time.monotonic(), time.monotonic(), 0, np.zeros(1)
while not over[0]:
    for _ in range(5): step()
    steps += 5
    now = time.monotonic()
    if RANK == 0 and now - last > {seconds} / 60:
        tell(rate=steps / (now - last))
        last, steps = now, 0
    over = hvd.broadcast(np.array([now - begin > {seconds}], np.float64), 0, name="over")
if RANK == 0: tell(settings=hvd.metrics().get("autotune"))
hvd.shutdown()
"""


def run(network: Network, hosts: int, step: str, seconds: float, **knobs: str) -> list[dict]:
    """Returns what rank 0 tells."""
    names = [str(host) for host in range(hosts)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Ranks(Path(folder), hosts, names, network.store) as ranks,
    ):
        program = PROGRAM.format(step=step, seconds=seconds)
        for host in range(hosts):
            ranks.start(program, ranks=[host], prefix=network.prefix(host), **knobs)
        ranks.end_well(seconds + 120)
        report = (Path(folder) / "report.0").read_text()
        return [json.loads(line) for line in report.splitlines()]


def rates(told: list[dict]) -> list[float]:
    return [line["rate"] for line in told if "rate" in line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rates", nargs="+", default=["25mbit", "100mbit", "1gbit"])
    options = parser.parse_args()
    if reason := why_not():
        raise SystemExit(reason)
    print(
        f"{options.hosts} hosts with a rank each, {options.seconds:g} s a job, "
        f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n"
    )
    print(
        "| network | step | defaults, steps/s | tuned, steps/s | tuned : defaults | "
        "with the search | settings |\n|---|---|---|---|---|---|---|"
    )
    for rate in options.rates:
        for words, step in STEPS.items():
            with Network(options.hosts) as network:
                for host in range(options.hosts):
                    shape = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate]
                    shape += ["burst", "64kb", "latency", "200ms"]
                    subprocess.run([*network.prefix(host), *shape], check=True)
                before = rates(run(network, options.hosts, step, options.seconds / 2))
                told = run(
                    network,
                    options.hosts,
                    step,
                    options.seconds,
                    HVDLITE_AUTOTUNE="1",
                    HVDLITE_AUTOTUNE_STEPS_PER_SAMPLE="3",
                )
                after = rates(run(network, options.hosts, step, options.seconds / 2))
            default = median(before + after)
            tuned = rates(told)
            settings = {k: v for k, v in told[-1]["settings"].items() if "change" not in k}
            last = median(tuned[-len(tuned) // 3 :])
            whole = len(tuned) / sum(1 / each for each in tuned)
            print(
                f"| {rate} | {words} | {default:.1f} | {last:.1f} | {last / default:.2f} | "
                f"{whole / default:.2f} | {json.dumps(settings)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
