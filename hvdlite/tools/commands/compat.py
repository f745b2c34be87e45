"""`hvdlite compat install | remove | status`."""

from __future__ import annotations

import sys

from hvdlite import __version__
from hvdlite.compat import HOROVOD_VERSION, installation
from hvdlite.compat.installation import Place, Refused


def run(action: str, target: str | None) -> int:
    """Runs the command, says what it did, and returns the exit status."""
    try:
        place = installation.directory(target) if target else installation.this_environment()
        print({"install": _install, "remove": _remove, "status": _status}[action](place))
    except Refused as why:
        print(f"hvdlite compat {action}: {why}.", file=sys.stderr)
        return 1
    return 0


def _install(place: Place) -> str:
    before = installation.is_installed(place)
    files = installation.install(place)
    said = "was installed already and has been renewed" if before else "is installed"
    return "\n".join(
        [
            f"horovod {HOROVOD_VERSION}, hvdlite's alias, {said}:",
            *(f"  {file}" for file in files),
            "Programs that import horovod now get hvdlite, and horovodrun is hvdliterun. `hvdlite "
            "compat remove` undoes this.",
        ]
    )


def _remove(place: Place) -> str:
    files = installation.remove(place)
    if not files:
        real = installation.horovod_itself(place)
        return f"Nothing to remove in {place.packages}." + (
            f" Horovod itself ({real}) stays." if real else ""
        )
    return "\n".join(["hvdlite's alias horovod is removed:", *(f"  {file}" for file in files)])


def _status(place: Place) -> str:
    if installation.is_installed(place):
        return (
            f"In {place.packages}, horovod is hvdlite {__version__}. `hvdlite compat remove` "
            "undoes this."
        )
    if real := installation.horovod_itself(place):
        return (
            f"In {place.packages}, horovod is Horovod itself ({real}). `python -m hvdlite.compat` "
            "runs a program with hvdlite instead."
        )
    return (
        f"{place.packages} has no package horovod. `hvdlite compat install` installs hvdlite's for "
        "all programs; `python -m hvdlite.compat` runs one program with it."
    )
