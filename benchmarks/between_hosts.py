"""hvdlite, gloo and Open MPI between two hosts that are network namespaces, with cables of a given
speed.

    benchmarks/between_hosts.py [--mbit 0 [1000 ...]] [--sizes 4 65536 1048576] [--rounds 5]

It needs root, and `ip` and `tc` (Debian: iproute2). Each cable is a pair of veth interfaces with a
token bucket (tbf) at both ends. With several cables, hvdlite, gloo and Open MPI use all of them,
"one cable" is hvdlite on the first, and "no checks" is hvdlite without check words. It prints, by
turns of the backends: the time of an allreduce of float32, and of the gradients of a ResNet-50, all
written before each lap; the share of the cables' speed that its bytes take; and the CPU time of a
rank, of which a part is spent in the kernel.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import launch
import machine
import workloads

BACKENDS = ("hvdlite", "no checks", "one cable", "gloo", "openmpi")
PEERS = {"gloo": "gloo", "openmpi": "mpi"}
GRADIENTS = 0  # stands for their size
_OPENMPI = next(backend for backend in launch.BACKENDS if backend.name == "openmpi")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--mbit", type=int, nargs="+", default=[1000], help="of each cable; 0: as fast as it goes"
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=[4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, GRADIENTS],
        help="bytes; 0: the gradients of a ResNet-50",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a backend, size and round")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.backends is None:
        given.backends = [name for name in BACKENDS if len(given.mbit) > 1 or name != "one cable"]
        if reason := launch.why_not(_OPENMPI):
            print(reason)
            given.backends.remove("openmpi")
    return given


PATIENCE = 300.0  # for all sizes of one backend, in seconds


def bytes_per_second(given: argparse.Namespace) -> float:
    return sum(given.mbit) * 1e6 / 8


class Cables:
    """Hosts 0 and 1, with cables of these speeds between them; use as a context manager."""

    def __init__(self, mbit: list[int]) -> None:
        self._names = [f"hvdlite-{os.getpid()}-{host}" for host in (0, 1)]
        self._mbit = mbit

    def name(self, host: int) -> str:
        return self._names[host]

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


def rank(name: str, given: argparse.Namespace) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))  # before other programs
    backend = importlib.import_module(f"peers.{PEERS.get(name, 'hvdlite')}")
    me, _ = backend.start()
    for size in given.sizes:
        tensors = {f"of {size}": backend.buffer("float32", size // 4)}
        if size == GRADIENTS:
            tensors = {
                key: backend.buffer("float32", workloads.numbers(shape))
                for key, shape in workloads.resnet50()
            }
        whole = 4 * sum(len(tensor) for tensor in tensors.values())
        line = bytes_per_second(given)
        repeat = max(3, min(5000, int(given.seconds / (whole / (line or 2e9) + 1e-6))))
        times, processor, kernel = [], 0.0, 0.0
        for lap in range(repeat + 2):
            for tensor in tensors.values():
                backend.fill(tensor, 1.0)
            before, begin = os.times(), time.perf_counter()
            if size == GRADIENTS:
                backend.step(tensors)
            else:
                backend.allreduce(tensors[f"of {size}"], f"of {size}")
            span, after = time.perf_counter() - begin, os.times()
            assert all(backend.first(tensor) == 2 for tensor in tensors.values())
            if lap < 2:
                continue
            times.append(span)
            kernel += (after.system - before.system) / repeat
            processor += (after.user - before.user + after.system - before.system) / repeat
        if me == 0:
            row = {"size": size, "bytes": whole, "seconds": median(times), "cpu": processor,
                   "kernel": kernel}  # fmt: skip
            print(json.dumps(row), flush=True)
    backend.stop()


def measure(backend: str, cables: Cables, given: argparse.Namespace, port: int) -> list[dict]:
    interfaces = [f"eth{cable}" for cable in range(len(given.mbit))]
    program = [sys.executable, *sys.argv, "--rank", backend]
    if backend == "openmpi":
        ranks = [_start_openmpi(program, cables, interfaces)]
    else:
        environment = os.environ | {
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "10.78.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": ",".join(interfaces),
            "HVDLITE_NETWORK_INTERFACES": "eth0"
            if backend == "one cable"
            else ",".join(interfaces),
            "HVDLITE_LINK_CHECKS": "off" if backend == "no checks" else "auto",
            "OMP_NUM_THREADS": "1",
        }
        ranks = [
            subprocess.Popen(
                [*cables.prefix(rank), *program],
                env=environment | {"RANK": str(rank), "HVDLITE_HOST_ID": f"host {rank}"},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in (0, 1)
        ]
    outputs = [rank.communicate(timeout=PATIENCE)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"{backend} has failed")
    return [json.loads(line) for line in outputs[0].splitlines() if line.startswith("{")]


def _start_openmpi(
    program: list[str], cables: Cables, interfaces: list[str]
) -> subprocess.Popen[str]:
    """Each host needs a name of its own, else Open MPI takes both for one."""
    agent = Path(__file__).parent / "pretended_hosts" / "namespace"
    through = ",".join(interfaces)
    launcher = [
        *_OPENMPI.launcher[:1], "--personality", "ompi", "--allow-run-as-root", "--bind-to", "none",
        "-n", "2", "--map-by", "node", "--host", f"{cables.name(0)}:1,10.78.0.2:1",
        "--prtemca", "plm_ssh_agent", str(agent), "--prtemca", "prte_if_include", "eth0",
        "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", through,
    ]  # fmt: skip
    for variable in (*_OPENMPI.environment, "PATH"):
        launcher += ["-x", variable]
    command = f"hostname {cables.name(0)}; exec {shlex.join([*launcher, *program])}"
    return subprocess.Popen(
        [*cables.prefix(0), "unshare", "-u", "sh", "-c", command],
        env=os.environ | _OPENMPI.environment | {"BENCHMARK_NAMESPACE": cables.name(1)},
        stdout=subprocess.PIPE,
        text=True,
    )


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
            of = rows[backend, size]
            seconds, whole = median(row["seconds"] for row in of), of[0]["bytes"]
            cpu, kernel = (
                median(row[key] for row in of) / whole * (1 << 30) for key in ("cpu", "kernel")
            )
            share = f"{100 * whole / seconds / line:.0f} %" if line else "-"
            print(
                f"| {shown(size)} | {backend} | {seconds * 1e3:.3g} | {share} | "
                f"{cpu:.2f} | {kernel:.2f} |"
            )


def shown(size: int) -> str:
    return "161 gradients" if size == GRADIENTS else workloads.size_text(size)


if __name__ == "__main__":
    main()
