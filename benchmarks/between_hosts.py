"""hvdlite and gloo between two hosts that are network namespaces, with cables of a given speed.

    benchmarks/between_hosts.py [--mbit 1000 [1000 ...]] [--sizes 1048576 16777216] [--rounds 5]

It needs root, and `ip` and `tc` (Debian: iproute2). Each cable is a pair of veth interfaces with a
token bucket (tbf) at both ends. With several cables, hvdlite and gloo use all of them, and
"one cable" is hvdlite on the first. It prints, by turns of the backends: the time of an allreduce
of float32, the share of the cables' speed that its bytes take, and the CPU time of a rank, of which
a part is spent in the kernel.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import machine

BACKENDS = ("hvdlite", "one cable", "gloo")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--mbit", type=int, nargs="+", default=[1000], help="of each cable; 0: as fast as it goes"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1 << 20, 16 << 20], help="bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a backend, size and round")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.backends is None:
        given.backends = [name for name in BACKENDS if len(given.mbit) > 1 or name != "one cable"]
    return given


def bytes_per_second(given: argparse.Namespace) -> float:
    return sum(given.mbit) * 1e6 / 8


class Cables:
    """Hosts 0 and 1, with cables of these speeds between them; use as a context manager."""

    def __init__(self, mbit: list[int]) -> None:
        self._names = [f"hvdlite-{os.getpid()}-{host}" for host in (0, 1)]
        self._mbit = mbit

    def prefix(self, host: int) -> list[str]:
        return ["ip", "netns", "exec", self._names[host]]

    def __enter__(self) -> Cables:
        try:
            for name in self._names:
                _run("ip", "netns", "add", name)
                _run("ip", "-n", name, "link", "set", "lo", "up")
            for cable, mbit in enumerate(self._mbit):
                self._lay(f"eth{cable}", cable, mbit)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _lay(self, interface: str, cable: int, mbit: int) -> None:
        one, other = self._names
        _run("ip", "-n", one, "link", "add", "name", interface, "type", "veth",
             "peer", "name", interface, "netns", other)  # fmt: skip
        for host, name in enumerate(self._names):
            _run("ip", "-n", name, "address", "add", f"10.78.{cable}.{host + 1}/24",
                 "dev", interface)  # fmt: skip
            _run("ip", "-n", name, "link", "set", interface, "up")
            if mbit:
                _run("tc", "-n", name, "qdisc", "add", "dev", interface, "root", "tbf",
                     "rate", f"{mbit}mbit", "burst", "256kb", "latency", "20ms")  # fmt: skip

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            _run("ip", "netns", "del", name, check=False)


def _run(*command: str, check: bool = True) -> None:
    subprocess.run(command, check=check, capture_output=not check)


def rank(peer: str, given: argparse.Namespace) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))  # before other programs
    backend = importlib.import_module(f"peers.{peer if peer == 'gloo' else 'hvdlite'}")
    me, _ = backend.start()
    for size in given.sizes:
        tensor = backend.buffer("float32", size // 4)
        backend.allreduce(tensor, f"warm {size}")
        line = bytes_per_second(given)
        repeat = max(3, int(given.seconds / (size / line if line else size / 2e9)))
        times = []
        backend.allreduce(tensor, f"warm {size}")
        before = os.times()
        for _ in range(repeat):
            begin = time.perf_counter()
            backend.allreduce(tensor, f"of {size}")
            times.append(time.perf_counter() - begin)
        after = os.times()
        kernel = (after.system - before.system) / repeat
        cpu = (after.user - before.user) / repeat + kernel
        if me == 0:
            row = {"size": size, "seconds": median(times), "cpu": cpu, "kernel": kernel}
            print(json.dumps(row), flush=True)
    backend.stop()


def measure(backend: str, cables: Cables, given: argparse.Namespace, port: int) -> list[dict]:
    interfaces = [f"eth{cable}" for cable in range(len(given.mbit))]
    environment = os.environ | {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "10.78.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": ",".join(interfaces),
        "HVDLITE_NETWORK_INTERFACES": "eth0" if backend == "one cable" else ",".join(interfaces),
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            [*cables.prefix(rank), sys.executable, *sys.argv, "--rank", backend],
            env=environment | {"RANK": str(rank), "HVDLITE_HOST_ID": f"host {rank}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"{backend} has failed")
    return [json.loads(line) for line in outputs[0].splitlines() if line.startswith("{")]


def main() -> None:
    given = arguments()
    sys.path.insert(0, str(Path(__file__).parent))
    if given.rank:
        rank(given.rank, given)
        return
    machine.take_turns()
    rows: dict[tuple[str, int], list[dict]] = {}
    with Cables(given.mbit) as cables:
        for turn in range(given.rounds):
            for number, backend in enumerate(given.backends):
                port = 29500 + turn * len(BACKENDS) + number
                for row in measure(backend, cables, given, port):
                    rows.setdefault((backend, row["size"]), []).append(row)
    line = bytes_per_second(given)
    print("| size | backend | ms | of the cables | CPU s per GiB | in the kernel |")
    print("|---|---|---|---|---|---|")
    for size in given.sizes:
        for backend in given.backends:
            seconds = median(row["seconds"] for row in rows[backend, size])
            cpu, kernel = (
                median(row[key] for row in rows[backend, size]) / size * (1 << 30)
                for key in ("cpu", "kernel")
            )
            share = f"{100 * size / seconds / line:.0f} %" if line else "-"
            print(
                f"| {size / (1 << 20):g} MiB | {backend} | {seconds * 1e3:.3g} | {share} | "
                f"{cpu:.2f} | {kernel:.2f} |"
            )


if __name__ == "__main__":
    main()
