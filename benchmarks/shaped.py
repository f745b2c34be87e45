"""Hosts that are network namespaces of this machine, with cards of a given rate. Needs root.

bridge in a namespace of its own
   | port0: tbf        | port1: tbf       what a host receives
   | eth0:  tbf        | eth0:  tbf       what a host sends
10.78.0.1           10.78.0.2
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

SEGMENTS = 11  # fit into the bucket
# Payload of two TCP segments, and what tbf counts: their frames and that of an acknowledgement,
# because a card sends acknowledgements of what it receives, too. `tc -s qdisc` shows the same.
GOODPUT = 2 * 1448 / (2 * 1514 + 66)


def _run(*command: str, check: bool = True) -> None:
    subprocess.run(command, check=check, capture_output=True, text=True, timeout=60)


class Shaped:
    """Hosts 0, 1, ... on one switch, each with a card of `megabits` a second, 0: as fast as it
    goes; a context manager.

    With `offload` a card takes SEGMENTS segments at once, and the switch has no firewall, as is
    usual. Else the processors of this machine cut and filter each segment of all hosts, and four
    hosts at 400 Mbit/s have half of two processors left for themselves."""

    def __init__(self, hosts: int, megabits: int, offload: bool = False) -> None:
        self._switch = f"hvdlite-shaped-{os.getpid()}"
        self._hosts = [f"{self._switch}-{host}" for host in range(hosts)]
        self._megabits = megabits
        self._offload = offload

    def address(self, host: int) -> str:
        return f"10.78.0.{host + 1}"

    def prefix(self, host: int) -> Sequence[str]:
        """What makes a command run on that host."""
        return ("ip", "netns", "exec", self._hosts[host])

    def __enter__(self) -> Shaped:
        self.__exit__()
        try:
            for name in (self._switch, *self._hosts):
                _run("ip", "netns", "add", name)
                _run("ip", "-n", name, "link", "set", "lo", "up")
            self._in(self._switch, "add", "bridge", "type", "bridge")
            self._in(self._switch, "set", "bridge", "up")
            for tables in ("iptables", "ip6tables", "arptables") if self._offload else ():
                unfiltered = f"net.bridge.bridge-nf-call-{tables}=0"
                _run("ip", "netns", "exec", self._switch, "sysctl", "-w", unfiltered, check=False)
            for host, name in enumerate(self._hosts):
                self._plug(host, name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _in(self, name: str, *link: str) -> None:
        _run("ip", "-n", name, "link", *link)

    def _plug(self, host: int, name: str) -> None:
        port = f"port{host}"
        self._in(self._switch, "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        self._in(self._switch, "set", port, "master", "bridge", "up")
        _run("ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        self._in(name, "set", "eth0", "up")
        if self._megabits:
            # A queue that holds what is under way: a card with a switch that loses nothing.
            rate = f"{self._megabits}mbit"
            shape = ("root", "tbf", "rate", rate, "burst", "16kb", "limit", "8mb")
            _run("tc", "-n", name, "qdisc", "add", "dev", "eth0", *shape)
            _run("tc", "-n", self._switch, "qdisc", "add", "dev", port, *shape)
        if self._offload:
            self._in(name, "set", "eth0", "gso_max_size", str(SEGMENTS * 1448))
        # The same on every machine, whatever its default.
        here = (f"{self.address(0).rpartition('.')[0]}.0/24", "dev", "eth0")
        _run("ip", "-n", name, "route", "change", *here, "congctl", "reno", check=False)

    def __exit__(self, *_: object) -> None:
        for name in (*self._hosts, self._switch):
            _run("ip", "netns", "del", name, check=False)
