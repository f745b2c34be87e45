"""The stores of jobs that have ranks on this host, of this user, found in /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from hvdlite.rendezvous.addresses import Address, parse_address
from hvdlite.tools.commands.ranks_here import environment_of, secret_of


def stores_here() -> Sequence[tuple[Address, bytes]]:
    """Returns addresses and secrets, each address once. A job may have several addresses."""
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
    """Those of this user."""
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                yield int(name)
