"""Puts a package `horovod` and a command `horovodrun` into an environment, so every program there
finds hvdlite under that name.

They have metadata like packages that pip has installed. pip lists them, takes Horovod's requirement
for satisfied, and can remove them. The package is a copy of path/horovod/__init__.py; everything
else stays in hvdlite.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hvdlite import __version__
from hvdlite.compat import original
from hvdlite.compat.names import DIRECTORY, HOROVOD_VERSION

_METADATA = f"horovod-{HOROVOD_VERSION}.dist-info"
# a mark in the command, which would otherwise look like any program's
_SIGNATURE = "hvdlite compat install"

_COMMAND = f"""\
# Written by `{_SIGNATURE}`.
from horovod.runner.launch import run_commandline

run_commandline()
"""


class InstallRefused(Exception):
    """A sentence that says why the environment was not changed."""


@dataclass(frozen=True)
class Site:
    """An environment: where it keeps packages and commands, and where else its Python looks for
    packages."""

    packages: Path
    commands: Path
    others: tuple[str, ...] = ()


def this_environment() -> Site:
    """Returns the environment of the running Python."""
    marker = Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    if sys.prefix == sys.base_prefix and marker.exists():
        raise InstallRefused(
            f"the packages of {sys.executable} belong to the system ({marker}): make a virtual "
            "environment"
        )
    others = tuple(entry for entry in sys.path if entry.endswith("-packages"))
    return Site(Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("scripts")), others)


def directory(path: str) -> Site:
    """Returns a place like that of `pip install --target`: a folder for PYTHONPATH, with its bin/
    for PATH."""
    whole = Path(path).resolve()
    return Site(whole, whole / "bin")


def is_installed(place: Site) -> bool:
    """Whether the alias, and not Horovod, is there."""
    try:
        return (place.packages / _METADATA / "INSTALLER").read_text().strip() == "hvdlite"
    except OSError:
        return False


def horovod_itself(place: Site) -> str | None:
    """Returns a file of the real Horovod that this environment's Python would import, or of its
    installation."""
    for metadata in place.packages.glob("horovod-*.dist-info"):
        if metadata.name != _METADATA or not is_installed(place):
            return str(metadata)
    return original.find([str(place.packages), *place.others])


def install(place: Site) -> list[str]:
    """Installs the alias, or installs it again. Returns the files."""
    if (real := horovod_itself(place)) is not None:
        raise InstallRefused(
            f"Horovod itself is installed ({real}), and hvdlite does not touch it: `pip uninstall "
            "horovod` first, "
            "or run programs with `python -m hvdlite.compat`, which leaves it where it is"
        )
    command = place.commands / "horovodrun"
    if command.exists() and _SIGNATURE not in command.read_text(errors="replace"):
        raise InstallRefused(f"{command} is not hvdlite's: move it away first")
    contents = _contents(place)
    written: list[Path] = []
    try:
        for path, text in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            written.append(path)
            path.write_text(text)
        command.chmod(0o755)
    except OSError as error:
        with suppress(OSError):
            _delete(written)
        raise InstallRefused(
            f"cannot write to {error.filename}: {error.strerror}. Use a virtual environment, "
            "`--target DIR`, or `python -m hvdlite.compat`, which needs no installation"
        ) from error
    return [str(path) for path in contents]


def remove(place: Site) -> list[str]:
    """Removes what install() has written, and nothing else. Returns the files; none if there was
    nothing."""
    if not is_installed(place):
        return []
    with open(place.packages / _METADATA / "RECORD", newline="", encoding="utf-8") as record:
        files = [
            Path(os.path.normpath(place.packages / row[0])) for row in csv.reader(record) if row
        ]
    try:
        _delete(files)
    except OSError as error:
        raise InstallRefused(f"cannot remove {error.filename}: {error.strerror}") from error
    return [str(path) for path in files]


def _contents(place: Site) -> dict[Path, str]:
    """Returns every file with its text, the metadata first, so an interrupted installation can be
    removed."""
    source = Path(DIRECTORY)
    metadata = place.packages / _METADATA
    files = {
        metadata / name: (source / _METADATA / name).read_text()
        for name in ("INSTALLER", "METADATA")
    }
    module = Path("horovod", "__init__.py")
    files[place.packages / module] = (source / module).read_text()
    files[place.commands / "horovodrun"] = _first_line() + _COMMAND
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for path, text in files.items():
        data = text.encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([os.path.relpath(path, place.packages), f"sha256={digest}", len(data)])
    rows.writerow([f"{_METADATA}/RECORD", "", ""])
    return {metadata / "RECORD": record.getvalue(), **files}


def _first_line() -> str:
    """Returns the first line as pip writes it: a shebang or, if that cannot hold the path, a shell
    that starts Python."""
    if " " in sys.executable or len(sys.executable) > 120:
        return f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n"
    return f"#!{sys.executable}\n"


def _delete(files: Iterable[Path]) -> None:
    """Deletes the files, their compiled forms and folders that are then empty; RECORD comes
    last."""
    for path in sorted(files, key=lambda path: path.name == "RECORD"):
        path.unlink(missing_ok=True)
        if path.suffix == ".py":
            shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
        if (
            path.parent.name in ("horovod", _METADATA)
            and path.parent.is_dir()
            and not any(path.parent.iterdir())
        ):
            path.parent.rmdir()


def run(arguments: argparse.Namespace) -> int:
    """Runs `hvdlite compat`, says what it did, and returns the exit status."""
    actions = {"install": _install_and_say, "remove": _remove_and_say, "status": _status}
    try:
        place = directory(arguments.target) if arguments.target else this_environment()
        print(actions[arguments.action](place))
    except InstallRefused as why:
        print(f"hvdlite compat {arguments.action}: {why}.", file=sys.stderr)
        return 1
    return 0


def _install_and_say(place: Site) -> str:
    before = is_installed(place)
    files = install(place)
    said = "was installed already and has been renewed" if before else "is installed"
    return "\n".join(
        [
            f"horovod {HOROVOD_VERSION}, hvdlite's alias, {said}:",
            *(f"  {file}" for file in files),
            "Programs that import horovod now get hvdlite, and horovodrun is hvdliterun. `hvdlite "
            "compat remove` undoes this.",
        ]
    )


def _remove_and_say(place: Site) -> str:
    files = remove(place)
    if not files:
        real = horovod_itself(place)
        return f"Nothing to remove in {place.packages}." + (
            f" Horovod itself ({real}) stays." if real else ""
        )
    return "\n".join(["hvdlite's alias horovod is removed:", *(f"  {file}" for file in files)])


def _status(place: Site) -> str:
    if is_installed(place):
        return (
            f"In {place.packages}, horovod is hvdlite {__version__}. `hvdlite compat remove` "
            "undoes this."
        )
    if real := horovod_itself(place):
        return (
            f"In {place.packages}, horovod is Horovod itself ({real}). `python -m hvdlite.compat` "
            "runs a program with hvdlite instead."
        )
    return (
        f"{place.packages} has no package horovod. `hvdlite compat install` installs hvdlite's for "
        "all programs; `python -m hvdlite.compat` runs one program with it."
    )
