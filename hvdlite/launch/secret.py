"""The job's secret: 32 random bytes that every connection has to prove it knows.

It travels in a sealed memfd that all ranks inherit: not in argv and not in the environment, where other
programs and logs would show it. It is read by position and never consumed, so init() may be called again.
A program between the launcher and the rank that closes inherited descriptors breaks this; for those cases
HVDLITE_SECRET=<64 hex digits>, set by the user before `hvdliterun`, is used instead and stays visible.
"""

from __future__ import annotations

import fcntl
import os
import resource
import secrets
from collections.abc import Mapping

SIZE = 32
DESCRIPTOR_VARIABLE = "HVDLITE_SECRET_FD"
TEXT_VARIABLE = "HVDLITE_SECRET"

_NAME = "hvdlite-secret"
# Above what shell scripts open for themselves (`exec 3<file`; bash keeps 10 and 255).
_LOWEST_DESCRIPTOR = 100
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def create() -> bytes:
    """A new secret."""
    return secrets.token_bytes(SIZE)


def store(secret: bytes) -> int:
    """A descriptor that holds the secret. Close it when the ranks have inherited it."""
    first = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(first, secret)
        fcntl.fcntl(first, fcntl.F_ADD_SEALS, _SEALS)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        lowest = _LOWEST_DESCRIPTOR if limit == resource.RLIM_INFINITY else min(_LOWEST_DESCRIPTOR, limit // 2)
        return fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, lowest)
    finally:
        os.close(first)


def load(descriptor: int) -> bytes:
    """The secret in an inherited descriptor; ValueError when that is not what it holds."""
    try:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        target = _NAME  # no /proc: the length below has to do
    try:
        secret = os.pread(descriptor, SIZE + 1, 0) if _NAME in target else b""
    except OSError:
        secret = b""
    if len(secret) != SIZE:
        raise ValueError(
            f"{DESCRIPTOR_VARIABLE}={descriptor} does not lead to the job's secret: a program between "
            "hvdliterun and this one closes the descriptors it inherits (as Python's subprocess does). Start "
            f"this one with close_fds=False, or set {TEXT_VARIABLE} to {2 * SIZE} random hex digits before "
            "hvdliterun."
        )
    return secret


def parse(text: str) -> bytes:
    """The secret in HVDLITE_SECRET. The error does not repeat the text."""
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != SIZE:
        raise ValueError(f"{TEXT_VARIABLE} has to be {2 * SIZE} hex digits (as from `openssl rand -hex {SIZE}`).")
    return secret


def from_environment(environ: Mapping[str, str]) -> bytes | None:
    """The secret this process was given, or None."""
    descriptor = environ.get(DESCRIPTOR_VARIABLE)
    if descriptor:
        if not descriptor.isdecimal():
            raise ValueError(f"{DESCRIPTOR_VARIABLE}={descriptor!r} is not allowed: expected a descriptor number.")
        return load(int(descriptor))
    text = environ.get(TEXT_VARIABLE)
    return parse(text) if text else None
