"""The ranks of elastic jobs, and the stores of all jobs, that this host has of this user: found in
/proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hvdlite.launch import secret
from hvdlite.rendezvous.addresses import Address, parse_address


@dataclass(frozen=True)
class RankHere:
    """A rank on this host. `pid`: the process that hvdliterun started, which may be a shell."""

    job: str  # HVDLITE_RENDEZVOUS
    member: int
    slot: int
    pid: int
    descriptor: int  # a pidfd; it is readable when the process has ended

    def token(self) -> bytes:
        """The member's own, with which it seals what it writes."""
        try:
            return bytes.fromhex(environment_of(self.pid)["HVDLITE_MEMBER_TOKEN"])
        except (OSError, KeyError, ValueError):
            raise ValueError(f"the environment of process {self.pid} names no token") from None


def secret_of(pid: int) -> bytes:
    """The job's secret: the process has inherited it, or its environment says where it is. Raises
    ValueError."""
    environ = environment_of(pid)
    inherited = environ.get(secret.DESCRIPTOR_VARIABLE, "")
    if not inherited.isdecimal():
        found = secret.of_the_user(environ)
        if found is None:
            raise ValueError(f"the environment of process {pid} names no secret")
        return found
    try:
        descriptor = os.open(f"/proc/{pid}/fd/{inherited}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(
            f"the job's secret cannot be read from process {pid}: {error.strerror}"
        ) from None
    try:
        return secret.load(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def ranks_here() -> Iterator[list[RankHere]]:
    """Yields the ranks of elastic jobs, and closes their descriptors in the end. A process that a
    rank started has the same environment and is left out."""
    found: dict[int, RankHere] = {}
    try:
        for pid in _processes():
            if pid != os.getpid() and (rank := _rank(pid)) is not None:
                found[pid] = rank
        members = {pid: (rank.job, rank.member) for pid, rank in found.items()}
        yield sorted(
            (rank for pid, rank in found.items() if members.get(_parent(pid)) != members[pid]),
            key=lambda rank: rank.slot,
        )
    finally:
        for rank in found.values():
            os.close(rank.descriptor)


def _rank(pid: int) -> RankHere | None:
    """Returns the process if it belongs to a rank of an elastic job."""
    with contextlib.suppress(OSError, KeyError, ValueError), contextlib.ExitStack() as stack:
        descriptor = os.pidfd_open(pid)
        stack.callback(os.close, descriptor)
        environ = environment_of(pid)
        job = environ["HVDLITE_RENDEZVOUS"]
        member, slot = int(environ["HVDLITE_MEMBER"]), int(environ["HVDLITE_SLOT"])
        stack.pop_all()
        return RankHere(job, member, slot, pid, descriptor)
    return None


def environment_of(pid: int) -> Mapping[str, str]:
    with open(f"/proc/{pid}/environ", "rb") as file:
        entries = file.read().split(b"\0")
    pairs = (os.fsdecode(entry).partition("=") for entry in entries)
    return {name: value for name, _, value in pairs}


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def stores_here() -> Sequence[tuple[Address, bytes]]:
    """Returns the stores of jobs that have ranks here: addresses and secrets, each address once. A
    job may have several addresses."""
    found: dict[Address, bytes] = {}
    for pid in _processes():
        try:
            environ = environment_of(pid)
            addresses = [
                parse_address(text, "HVDLITE_RENDEZVOUS")
                for text in environ.get("HVDLITE_RENDEZVOUS", "").split(",")
                if text
            ]
            if any(address not in found for address in addresses):
                found |= dict.fromkeys(addresses, secret_of(pid))
        except (OSError, ValueError):  # it has ended, or has no secret
            continue
    return list(found.items())


def _processes() -> Iterator[int]:
    """Yields the processes of this user."""
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                yield int(name)
