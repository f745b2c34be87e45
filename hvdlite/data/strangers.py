"""Whether strangers reach the servers of tf.data's service, which ask for no password and run what
they are sent.

They listen on all interfaces. tf.data has no way to tell them otherwise.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import socket
from collections.abc import Sequence

from hvdlite.base import knobs
from hvdlite.rendezvous import addresses

_log = logging.getLogger("hvdlite")

# Accounts of people begin here; those below belong to services of the system.
_FIRST_PERSON, _LAST_PERSON = 1000, 65533
_SHOWN = 3

_DANGER = (
    "every program that reaches its ports can run graphs as this user, and so read and write all "
    "of this user's files"
)


def refuse(open_ports: bool, warns: bool = False) -> None:
    """Raises RuntimeError if strangers may reach this machine's ports, unless the user has said
    that this is meant. `warns`: this rank says for its job what strangers could do."""
    refuse_any([why_here(open_ports)])
    if warns:
        _log.warning("tf.data's service asks for no password: %s (docs/guides/data.md).", _DANGER)


def refuse_any(reasons: Sequence[str]) -> None:
    """Raises RuntimeError with the first of these that is not empty."""
    why = next(filter(None, reasons), "")
    if why:
        raise RuntimeError(
            f"tf.data's service asks for no password, and {why}: {_DANGER}. So it is not started. "
            "If you trust all of them, say so: --open-ports, TfDataServiceConfig(open_ports=True) "
            "or HVDLITE_OPEN_PORTS=1 (docs/guides/data.md)."
        )


def why_here(open_ports: bool) -> str:
    """Returns what lets strangers reach the ports of this machine; empty: nothing, or the user has
    said that this is meant."""
    if open_ports or knobs.resolve(os.environ)["open_ports"]:
        return ""
    return why_open(socket.gethostname(), others_here(), addresses.all_interfaces())


def why_open(here: str, users: Sequence[str], interfaces: Sequence[tuple[str, str]]) -> str:
    """Returns what lets strangers reach the ports of the host `here`, which has these other users,
    and these interfaces and addresses; empty: nothing. Pure."""
    if users:
        return f"{here} has other users ({_some(users)})"
    public = [address for _, address in interfaces if addresses.is_public(address)]
    if public:
        return f"{here} has the public address {public[0]}"
    names = list(dict.fromkeys(name for name, _ in interfaces if name != "lo"))
    if len(names) > 1:
        return f"{here} has {len(names)} network interfaces ({_some(names)})"
    return ""


def others_here() -> list[str]:
    """Returns the people whose programs run here. An account that nobody uses is no stranger: most
    images of machines come with one."""
    found = set()
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            found.add(os.stat(f"/proc/{pid}").st_uid)
    return [
        _name_of(uid)
        for uid in sorted(found)
        if _FIRST_PERSON <= uid <= _LAST_PERSON and uid != os.geteuid()
    ]


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
