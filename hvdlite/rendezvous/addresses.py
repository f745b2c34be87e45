"""Finds the addresses of this machine, and which address of another machine leads to it.

This is not known beforehand. A name may resolve to 127.0.1.1 on its own machine, and docker0 has
the same address everywhere. A host may have one network for storage, one for the batch system and
one for the job. So a listener offers all of its addresses. A client tries them at the same time,
and takes the first whose other end knows the job's secret.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hvdlite.rendezvous.client import StoreClient

Address = tuple[str, int]

_SIOCGIFADDR = 0x8915
# The pause between attempts. It grows, so a store that opens soon is found soon, and one that takes
# long is not asked all the time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.03, 0.5
_ATTEMPT_SECONDS = 10.0
_QUIET_PORTS = range(20000, 32768)  # net.ipv4.ip_local_port_range begins there
_ATTEMPTS = 100


def join_address(host: str, port: int | str) -> str:
    """Writes an address as parse_address() reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str, source: str) -> Address:
    """`host:port` or `[v6]:port`."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{source}={text!r} is not allowed: expected host:port.")
    return host, int(port)


def parse_addresses(text: str, source: str) -> tuple[Address, ...]:
    """Reads one or several addresses of one store, separated by commas."""
    return tuple(parse_address(part, source) for part in text.split(","))


def all_interfaces() -> list[tuple[str, str]]:
    """Returns the interfaces of this machine that have an address, with it: IPv4, then IPv6 without
    link-local ones."""
    found = [(name, _ipv4(name)) for _, name in socket.if_nameindex()]
    return [(name, address) for name, address in found if address is not None] + _ipv6()


def of_this_machine(interfaces: Collection[str] = ()) -> list[str]:
    """Returns IPv4 addresses, then IPv6 ones, without loopback and link-local addresses; or those
    of the named interfaces.

    Raises ValueError if a named interface does not exist or has no address.
    """
    found = all_interfaces()
    if interfaces:
        existing = {name for name, _ in found}
        for name in interfaces:
            if name not in existing:
                raise ValueError(
                    f"There is no interface {name!r} with an address on {socket.gethostname()}, "
                    f"only {', '.join(sorted(existing))}."
                )
        return [address for name, address in found if name in interfaces]
    # Bridges of containers and of virtual machines exist on every host and lead nowhere, so they
    # come last.
    bridges = ("docker", "virbr", "br-")
    usual = [a for name, a in found if name != "lo" and not name.startswith(bridges)]
    return usual + [a for name, a in found if name.startswith(bridges)]


def _ipv4(interface: str) -> str | None:
    import fcntl  # loads a library

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        answer = fcntl.ioctl(sock, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        return socket.inet_ntoa(answer[20:24])
    return None


def _ipv6() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    with contextlib.suppress(OSError), open("/proc/net/if_inet6") as file:
        for line in file:
            address, _, _, scope, _, interface = line.split()
            if scope != "20":  # link-local: useless without the name of the other side's interface
                found.append((interface, socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address))))
    return found


def is_of_this_machine(name: str) -> bool:
    """Whether `host` is this machine: an address of it can be bound here."""
    try:
        found = socket.getaddrinfo(name, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, proto, _, address in found:
        with contextlib.suppress(OSError), socket.socket(family, kind, proto) as sock:
            sock.bind(address)
            return True
    return False


def is_public(address: str) -> bool:
    """Whether an address can be reached from the internet. A name is none."""
    import ipaddress  # rarely needed

    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_global


def addresses_of(host: str) -> list[str]:
    """Returns the addresses that a name stands for now; none if it does not resolve."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def quiet_port() -> int:
    """Returns a port at which no process listens here, and which no kernel chooses by itself for a
    connection. Most likely, it is free on another host as well."""
    for _ in range(_ATTEMPTS):
        port = _QUIET_PORTS[int.from_bytes(os.urandom(4), "big") % len(_QUIET_PORTS)]
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("", port))
            return port
    raise OSError(f"of the ports {_QUIET_PORTS[0]} to {_QUIET_PORTS[-1]} {_ATTEMPTS} were in use")


def reach(
    addresses: Sequence[Address], secret: bytes, timeout: float
) -> tuple[Address, StoreClient]:
    """Connects to the store that listens at one of these addresses, and returns the connection with
    its address.

    Tries all at once, again and again until the deadline, because a store may open late and a name
    may not resolve yet. Takes the first whose handshake succeeds. ConnectionError lists the last
    failure of each.
    """
    import queue  # hvdliterun's ranks, which import this module, know the one address

    from hvdlite.rendezvous.client import StoreClient

    deadline = time.monotonic() + timeout
    results: queue.SimpleQueue[tuple[Address, StoreClient | None]] = queue.SimpleQueue()
    said: dict[Address, str] = {}
    done = threading.Event()

    def connect(address: Address) -> None:
        pause = _FIRST_PAUSE
        while True:
            left = deadline - time.monotonic()
            try:
                client = StoreClient(address, secret, max(0.1, min(left, _ATTEMPT_SECONDS)))
            except (OSError, ValueError) as error:
                # Now: at the deadline, the waiting thread may be faster than this one.
                said[address] = str(error.__cause__ or error)
            else:
                if done.is_set():
                    client.close()
                else:
                    results.put((address, client))
                return
            left = deadline - time.monotonic()
            if done.wait(min(pause, max(0.0, left))) or time.monotonic() >= deadline:
                results.put((address, None))
                return
            pause = min(2 * pause, _LONGEST_PAUSE)

    for address in addresses:
        threading.Thread(target=connect, args=(address,), name="hvd-reach", daemon=True).start()
    try:
        for _ in addresses:
            try:
                address, result = results.get(timeout=max(0.0, deadline - time.monotonic()) + 0.1)
            except queue.Empty:
                break
            if result is not None:
                return address, result
    finally:
        done.set()
        while not results.empty():  # another address was faster
            _, late = results.get()
            if late is not None:
                late.close()
    tried = "; ".join(
        f"{host} port {port}: {said.get((host, port), 'no answer')}" for host, port in addresses
    )
    raise ConnectionError(f"no answer within {timeout:g} s from the job's store. Tried {tried}")
