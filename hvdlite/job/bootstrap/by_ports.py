"""Meeting without a channel, as under `srun python train.py`. The port follows from what all
processes of the job know. So does the key, unless the user has set a secret.

Such a key keeps jobs apart that choose the same port. It does not keep out a user who can look up
the job's number (docs/decisions/0004); rank 0 says so. So ranks at public addresses need a secret,
or the user's word. Jobs on one host meet at a socket (by_socket).
"""

from __future__ import annotations

import errno
import hmac
import logging
import socket
from collections.abc import Iterator, Sequence
from typing import NoReturn

from hvdlite.job.bootstrap.offer import StoreAccess, of_this_job, open_store
from hvdlite.launch.environment import ALLOW_OPEN_JOB, Identity
from hvdlite.launch.environment.identity import AtPorts
from hvdlite.rendezvous import addresses

# Above the ports of services, below those that Linux gives to outgoing connections (32768 and up).
_FIRST_PORT, _PORTS = 20_000, 12_000
_CANDIDATES = 4

_log = logging.getLogger("hvdlite")


def meet(me: Identity, method: AtPorts, seconds: float) -> StoreAccess:
    """Rank 0 opens the store at the first free port. The others try all ports. Raises RuntimeError
    if strangers could do so as well."""
    hosts, job = method.hosts, method.job + me.namespace
    private = me.secret is None and not method.may_be_open
    if private:
        hosts = _private(me, hosts)
    secret = of_this_job(me.secret, job) if me.secret else derived_key(job)
    ports = candidates(job)
    if me.rank == 0:
        _refuse_wrong_host(hosts[0], me)
        port = _open(secret, ports, private)
        if me.secret is None:
            _warn(port, me)
        return StoreAccess(("127.0.0.1", port), secret)
    try:
        address, client = addresses.reach(
            [(host, port) for host in hosts for port in ports], secret, seconds
        )
    except ConnectionError as error:
        given = (
            "was given a secret"
            if me.secret
            else "was given no secret (HVDLITE_SECRET_FILE, HVDLITE_SECRET)"
        )
        raise ConnectionError(
            f"{error}. This rank {given}. All ranks need the same secret, or none of them one"
        ) from error
    try:
        there = client.socket.getpeername()[0]
    finally:
        client.close()
    if private and addresses.is_public(there):  # the name did not resolve before
        _refuse_public(me, there)
    return StoreAccess(address, secret)


def _private(me: Identity, hosts: Sequence[str]) -> tuple[str, ...]:
    """Returns those of the names that do not stand for public addresses."""
    found = {host: addresses.addresses_of(host) for host in hosts}
    public = {host: next(filter(addresses.is_public, of), "") for host, of in found.items()}
    if any(public.values()) and not any(found[host] for host in hosts if not public[host]):
        _refuse_public(me, next(filter(None, public.values())))
    return tuple(host for host in hosts if not public[host])


def _refuse_public(me: Identity, address: str) -> NoReturn:
    raise RuntimeError(
        f"{me.launcher} cannot give the ranks a secret, and {address} is a public address: every "
        "program that reaches it could join the job and run code in its ranks. Set "
        "HVDLITE_SECRET_FILE on all ranks (docs/guides/launching.md), or start the program with "
        f"hvdliterun. {ALLOW_OPEN_JOB}=1 allows it, if a firewall keeps strangers out."
    )


def _warn(port: int, me: Identity) -> None:
    _log.warning(
        "%s cannot give the ranks a secret, so hvdlite derives the job's secret from values that "
        "others can look up. Every program that reaches port %d of %s can join the job. Set "
        "HVDLITE_SECRET_FILE on all ranks to prevent that (docs/guides/launching.md).",
        me.launcher, port, socket.gethostname(),
    )  # fmt: skip


def candidates(job: str) -> list[int]:
    """Returns the ports to try, in order."""
    ports: dict[int, None] = {}
    for digest in digests(job, b"port"):
        ports[_FIRST_PORT + int.from_bytes(digest[:8], "big") % _PORTS] = None
        if len(ports) == _CANDIDATES:
            return list(ports)
    raise AssertionError("unreachable")


def derived_key(job: str) -> bytes:
    return next(digests(job, b"key"))


def digests(job: str, purpose: bytes) -> Iterator[bytes]:
    """Yields digests of a job's facts, without end."""
    number = 0
    while True:
        yield hmac.digest(
            b"hvdlite meeting 1", b"%s %d %s" % (purpose, number, job.encode()), "sha256"
        )
        number += 1


def _open(secret: bytes, ports: list[int], private: bool) -> int:
    for port in ports:
        try:
            return open_store(secret, False, port, private)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise ConnectionError(
        f"the ports {', '.join(map(str, ports))} of {socket.gethostname()} are all taken. hvdlite "
        "derives them from the job's number. Start the program with hvdliterun, or set "
        "HVDLITE_RENDEZVOUS"
    )


def _refuse_wrong_host(host: str, me: Identity) -> None:
    """Raises an error if rank 0 is not on the host where the others look for it."""
    here = socket.gethostname()
    if here.split(".")[0] == host.split(".")[0] or addresses.is_of_this_machine(host):
        return
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return  # a name that does not resolve here may still mean this machine elsewhere
    raise ConnectionError(
        f"rank 0 runs on {here}, but the other ranks look for it on {host}, which {me.launcher} "
        "names as the first host (an arbitrary distribution of tasks?): start the program with "
        "hvdliterun"
    )
