"""Hosts that are network namespaces of this machine: own interfaces, own routes, cables that can be
pulled.

              bridge in a namespace of its own, which is also where the store listens
             /                       \\
    eth0: 10.77.0.2              eth0: 10.77.0.3       what is real
    docker0: 172.17.0.1          docker0: 172.17.0.1   the same address on every host: leads nowhere
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
from collections.abc import Sequence

from long_way import LongWay, inside, interface_in
from machine import within

from hvdlite.rendezvous.server import StoreServer

# What a host drops of what arrives from others: packets are lost on the way, not refused by their
# sender, which would notice.
_LOSS = """
add table inet loss;
add chain inet loss arriving {{ type filter hook input priority 0; }};
add rule inet loss arriving iifname != lo numgen random mod 100 < {percent} counter drop;
"""
# A firewall of a host, which says nothing: ssh passes.
_WALL = """
add table inet wall;
add chain inet wall arriving {{ type filter hook input priority 0; }};
add rule inet wall arriving {family} saddr {source} tcp dport != 22 counter drop;
"""
# Of what that host sends, whatever is long.
_NARROW = """
add table inet narrow;
add chain inet narrow arriving {{ type filter hook input priority 0; }};
add rule inet narrow arriving {family} saddr {source} meta length > {most} counter drop;
"""


def why_not() -> str | None:
    """Why there can be no namespaces here; None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the program ip (Debian: apt-get install iproute2)"
    trial = f"hvdlite-{os.getpid()}-trial"
    made = _ip("netns", "add", trial, check=False)
    if made.returncode == 0:
        made = _ip(
            "-n",
            trial,
            *"link add veth0 type veth peer name veth1".split(),
            check=False,
        )
        _ip("netns", "del", trial, check=False)
    return f"no network namespaces here: {made.stderr.strip()}" if made.returncode != 0 else None


def _ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ip", *arguments], check=check, capture_output=True, text=True, timeout=within(20)
    )


def why_not_loss() -> str | None:
    """Why no packets can be lost here; None if they can."""
    if reason := why_not():
        return reason
    if shutil.which("nft") is None:
        return "the loss of packets needs the program nft (Debian: apt-get install nftables)"
    trial = f"hvdlite-{os.getpid()}-trial"
    _ip("netns", "add", trial)
    try:
        made = _nft(trial, _LOSS.format(percent=1), check=False)
    finally:
        _ip("netns", "del", trial, check=False)
    return f"no loss of packets here: {made.stderr.strip()}" if made.returncode != 0 else None


def _nft(namespace: str, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return _ip("netns", "exec", namespace, "nft", *words, check=check)


# Of 4 ranks that have called hvd.init().
COLLECTIVES = """
for n in (1, 1000, 300_000):
    x = np.arange(n, dtype=np.float32) + RANK
    assert (hvd.allreduce(x, op=hvd.Sum) == 4 * np.arange(n) + 6).all()
    assert (hvd.broadcast(x, 2) == np.arange(n) + 2).all()
    assert (hvd.allgather(x) == np.concatenate([np.arange(n) + r for r in range(4)])).all()
rows = np.full((8, 3), RANK)
assert (hvd.alltoall(rows)[:, 0] == np.repeat(np.arange(4), 2)).all()
assert (hvd.reducescatter(rows, op=hvd.Sum) == 6).all()
pair = hvd.add_process_set([1, 2])
if pair.included(): assert hvd.allreduce(RANK, op=hvd.Sum, process_set=pair) == 3
hvd.barrier()
"""


class Network:
    """Hosts 0, 1, ... on one switch; use as a context manager."""

    def __init__(self, hosts: int, version: int = 4, tag: str = "", public: bool = False) -> None:
        """`tag` tells networks of one process apart that are there at the same time. `public`:
        addresses of the internet."""
        self._names = [f"hvdlite-{os.getpid()}-{tag}{name}" for name in ("switch", *range(hosts))]
        self._version = version
        self._net = "11.77" if public else "10.77"

    def address(self, host: int, cable: int = 0) -> str:
        """-1: the switch."""
        subnet = f"{self._net}.{cable}." if self._version == 4 else f"fd77:0:0:{cable}::"
        return str(ipaddress.ip_address(f"{subnet}{host + 2}"))

    def prefix(self, host: int) -> Sequence[str]:
        """What makes a command run on that host."""
        return ["ip", "netns", "exec", self._names[host + 1]]

    def store(self, secret: bytes) -> StoreServer:
        """A store that listens on the switch."""
        with inside(self._names[0]):
            return StoreServer(secret, self.address(-1))

    def lay_second_cables(self, one_subnet: bool = False) -> None:
        """Gives each host an eth1 at a second switch, in another subnet or in the same one."""
        switch = self._names[0]
        _ip("-n", switch, "link", "add", "bridge1", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge1", "up")
        for host, name in enumerate(self._names[1:]):
            self._plug(name, "bridge1", f"second{host}", "eth1")
            if one_subnet:
                # Else each interface answers for the other's address.
                for setting in ("arp_ignore=1", "arp_announce=2"):
                    _ip("netns", "exec", name, "sysctl", "-w", f"net.ipv4.conf.all.{setting}")
                _ip("-n", name, "address", "add", f"{self._net}.0.{host + 102}/24", "dev", "eth1")
                _ip("-n", name, "link", "set", "eth1", "up")
            else:
                self._give(name, "eth1", host, 1)

    def carried(self, host: int, interface: str) -> tuple[int, int]:
        """The bytes that the interface has sent and received."""
        found = json.loads(_ip("-n", self._names[host + 1], "-j", "-s", "link", "show",
                               interface).stdout)  # fmt: skip
        counters = found[0]["stats64"]
        return counters["tx"]["bytes"], counters["rx"]["bytes"]

    def pull_the_cable(self, host: int, port: str = "port") -> None:
        """From here on nothing that the host sends arrives, and nothing tells it so: the switch,
        too, would answer at its own address. `port`: "second" for the second cable."""
        _ip("-n", self._names[0], "link", "set", f"{port}{host}", "nomaster", "arp", "off")

    def plug_the_cable_in(self, host: int) -> None:
        _ip("-n", self._names[0], "link", "set", f"port{host}", "master", "bridge", "arp", "on")

    def part(self, one: int, other: int) -> None:
        """From here on nothing goes between these two hosts, and nothing tells them so."""
        for host, far in ((one, other), (other, one)):
            _ip("-n", self._names[host + 1], "route", "add", "blackhole", self.address(far))

    def join(self, one: int, other: int) -> None:
        for host, far in ((one, other), (other, one)):
            _ip("-n", self._names[host + 1], "route", "del", "blackhole", self.address(far))

    def lose_packets(self, percent: int) -> None:
        """From here on so many of all packets that come to a host or to the switch are lost."""
        for name, interface in self._interfaces():
            # Else a packet of veth is a segment of up to 64 KiB.
            _ip("-n", name, "link", "set", interface, "gso_max_segs", "1")
            _nft(name, _LOSS.format(percent=percent))

    def lost_packets(self, host: int) -> int:
        """How many that host, or the switch, has lost since `lose_packets`."""
        return self._dropped(host, "loss")

    def raise_a_wall(self, host: int, source: int) -> None:
        """From here on a firewall of `host` drops what the host `source` sends to its ports."""
        family = "ip" if self._version == 4 else "ip6"
        _nft(self._names[host + 1], _WALL.format(family=family, source=self.address(source)))

    def swallow_large_packets(self, source: int, most: int) -> None:
        """From here on packets of more bytes that this host sends get lost, also on the way to the
        switch; all MTUs stay as they are."""
        # Else a packet of veth is a segment of up to 64 KiB.
        _ip("-n", self._names[source + 1], "link", "set", "eth0", "gso_max_segs", "1")
        family, text = "ip" if self._version == 4 else "ip6", self.address(source)
        for host, name in enumerate(self._names, -1):
            if host != source:
                _nft(name, _NARROW.format(family=family, source=text, most=most))

    def dropped_packets(self, host: int) -> int:
        """How many the firewall of that host has dropped."""
        return self._dropped(host, "wall")

    def _dropped(self, host: int, table: str) -> int:
        found = json.loads(
            _nft(self._names[host + 1], "--json", f"list chain inet {table} arriving").stdout
        )
        (rule,) = (each["rule"] for each in found["nftables"] if "rule" in each)
        (counter,) = (each["counter"] for each in rule["expr"] if "counter" in each)
        return int(counter["packets"])

    def _interfaces(self) -> list[tuple[str, str]]:
        """Of the switch and of each host, the one that leads to the others."""
        switch, *hosts = self._names
        return [(switch, "bridge"), *((host, "eth0") for host in hosts)]

    def lose_large_packets(self, host: int) -> None:
        """From here on what the host sends arrives if it is short, and nothing tells it so: the
        switch's MTU is smaller than its own."""
        # Else the kernel hands whole segments to the switch, which does not look at their size.
        _ip("-n", self._names[host + 1], "link", "set", "eth0", "gso_max_segs", "1")
        for port in range(len(self._names) - 1):
            _ip("-n", self._names[0], "link", "set", f"port{port}", "mtu", "600")

    def __enter__(self) -> Network:
        switch = self._names[0]
        self.__exit__()
        try:
            for name in self._names:
                _ip("netns", "add", name)
                _ip("-n", name, "link", "set", "lo", "up")
            # An address of its own, else it has that of a port, which would go on taking what is
            # sent there when it is out of the bridge.
            _ip(
                "-n",
                switch,
                *"link add bridge address 02:77:00:00:00:01 type bridge".split(),
            )
            self._give(switch, "bridge", -1)
            for host, name in enumerate(self._names[1:]):
                self._plug(name, "bridge", f"port{host}", "eth0")
                self._give(name, "eth0", host)
                _ip("-n", name, "link", "add", "docker0", "type", "bridge")
                _ip("-n", name, "address", "add", "172.17.0.1/16", "dev", "docker0")
                _ip("-n", name, "link", "set", "docker0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def lengthen(self, host: int, seconds: float) -> LongWay:
        """From here on each packet to and from the host takes so long. Close the result."""
        switch, name = self._names[0], self._names[host + 1]
        _ip("-n", name, "link", "del", "eth0")
        ends = (interface_in(switch, f"port{host}"), interface_in(name, "eth0"))
        _ip("-n", switch, "link", "set", f"port{host}", "master", "bridge", "up")
        self._give(name, "eth0", host)
        return LongWay(*ends, seconds)

    def _plug(self, name: str, bridge: str, port: str, interface: str) -> None:
        switch = self._names[0]
        _ip("-n", switch, "link", "add", "name", port, "type", "veth",
            "peer", "name", interface, "netns", name)  # fmt: skip
        _ip("-n", switch, "link", "set", port, "master", bridge, "up")

    def _give(self, name: str, interface: str, host: int, cable: int = 0) -> None:
        bits, extra = ("/24", []) if self._version == 4 else ("/64", ["nodad"])
        address = self.address(host, cable) + bits
        _ip("-n", name, "address", "add", address, "dev", interface, *extra)
        _ip("-n", name, "link", "set", interface, "up")

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            _ip("netns", "del", name, check=False)
