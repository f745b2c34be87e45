"""The private directory in which the launchers of a user listen, one socket for each job."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

_RUNTIME = "/run/user"
_TEMPORARY = "/tmp"
_SUFFIX = ".sock"
_numbers = itertools.count()


def candidates(environ: Mapping[str, str], user: int) -> list[Path]:
    """Returns the places for the directory, the best one first.

    A launcher takes the first that it can have. A terminal may have another environment than the
    launcher, so `hvdlite top` looks into all of them. Pure.
    """
    runtime = environ.get("XDG_RUNTIME_DIR") or f"{_RUNTIME}/{user}"
    places = [f"{runtime}/hvdlite", f"{_RUNTIME}/{user}/hvdlite", f"{_TEMPORARY}/hvdlite-{user}"]
    return [Path(place) for place in dict.fromkeys(places)]


def listen(environ: Mapping[str, str]) -> tuple[socket.socket, Path]:
    """Returns a listening socket and its path. Raises OSError if no place is possible."""
    list(sockets(environ))  # removes what launchers that were killed have left
    failure = OSError("no directory is possible")
    for place in candidates(environ, os.geteuid()):
        try:
            _make(place)
            return _listen(place / f"{os.getpid()}.{next(_numbers)}{_SUFFIX}")
        except OSError as error:
            failure = error
    raise failure


def sockets(environ: Mapping[str, str]) -> Iterator[tuple[int, Path]]:
    """Returns the process and the path of each socket. Removes those whose process has ended."""
    for place in candidates(environ, os.geteuid()):
        if not _is_private(place):
            continue
        for path in sorted(place.glob(f"*{_SUFFIX}")):
            pid = path.name.partition(".")[0]
            if not pid.isdecimal():
                continue
            if os.path.exists(f"/proc/{pid}"):
                yield int(pid), path
            else:
                remove(path)


def remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _make(place: Path) -> None:
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=0o700)
    if not _is_private(place):
        raise PermissionError(f"{place} is not a private directory of this user")


def _is_private(place: Path) -> bool:
    """Whether no other user can put a socket there. A link is not followed."""
    try:
        status = place.lstat()
    except OSError:
        return False
    own = status.st_uid == os.geteuid()
    return stat.S_ISDIR(status.st_mode) and own and not status.st_mode & 0o077


def _listen(path: Path) -> tuple[socket.socket, Path]:
    remove(path)  # of an ended process that had the same number
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(16)
        listener.setblocking(False)
    except OSError:
        listener.close()
        remove(path)
        raise
    return listener, path
