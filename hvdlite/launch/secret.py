"""The job's secret: 32 random bytes that every connection has to prove it knows.

It is in a sealed memfd that all ranks inherit. Other programs and logs would show argv and the
environment, so it is in neither. It is read by position and never consumed, so init() may be called
again.

A program between the launcher and the rank may close inherited descriptors. For such cases, the
user sets HVDLITE_SECRET=<64 hex digits> before `hvdliterun`; this is visible. Or
HVDLITE_SECRET_FILE names a file with these digits that only its owner can read.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping

SIZE = 32
DESCRIPTOR_VARIABLE = "HVDLITE_SECRET_FD"
TEXT_VARIABLE = "HVDLITE_SECRET"
FILE_VARIABLE = "HVDLITE_SECRET_FILE"

_NAME = "hvdlite-secret"
_FILE_BYTES = 4096
_MAKE_FILE = f"`(umask 077; openssl rand -hex {SIZE} > FILE)` makes one as it has to be."
# Above the descriptors that shell scripts open for themselves (`exec 3<file`; bash keeps 10 and
# 255).
_LOWEST_DESCRIPTOR = 100


def create() -> bytes:
    """Creates a new secret."""
    return os.urandom(SIZE)


def store(secret: bytes) -> int:
    """Returns a descriptor that holds the secret. Close it when the ranks have inherited it."""
    import fcntl  # ranks, which import this module, store nothing
    import resource

    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    first = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(first, secret)
        fcntl.fcntl(first, fcntl.F_ADD_SEALS, seals)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = _LOWEST_DESCRIPTOR if limit == resource.RLIM_INFINITY else limit // 2
        return fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, min(_LOWEST_DESCRIPTOR, most))
    finally:
        os.close(first)


def hand_over(
    key: bytes, shared: Mapping[str, str], stack: contextlib.ExitStack
) -> tuple[int | None, dict[str, str]]:
    """Returns how processes here get the secret: a descriptor that they inherit, and the variable
    that names it. Returns neither if the user has chosen the secret."""
    if shared.get(TEXT_VARIABLE):
        return None, {}
    descriptor = store(key)
    stack.callback(os.close, descriptor)
    return descriptor, {DESCRIPTOR_VARIABLE: str(descriptor)}


def load(descriptor: int) -> bytes:
    """Returns the secret in an inherited descriptor. Raises ValueError if it does not hold one."""
    try:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        target = _NAME  # without /proc, the length below has to suffice
    try:
        secret = os.pread(descriptor, SIZE + 1, 0) if _NAME in target else b""
    except OSError:
        secret = b""
    if len(secret) != SIZE:
        raise ValueError(
            f"{DESCRIPTOR_VARIABLE}={descriptor} does not lead to the job's secret: a program "
            "between hvdliterun and this one closes the descriptors it inherits (as Python's "
            f"subprocess does). Start this one with close_fds=False, or set {TEXT_VARIABLE} to "
            f"{2 * SIZE} random hex digits before hvdliterun."
        )
    return secret


def parse(text: str, source: str = TEXT_VARIABLE) -> bytes:
    """Returns the secret in this text of `source`. The error does not repeat the text."""
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != SIZE:
        raise ValueError(
            f"{source} has to be {2 * SIZE} hex digits (as from `openssl rand -hex {SIZE}`)."
        )
    return secret


def read(path: str) -> bytes:
    """Returns the secret in a file that only its owner, this user, can read. Raises ValueError with
    a sentence."""
    named = f"{FILE_VARIABLE}={path}"
    try:
        # A named pipe must not block the rank.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ValueError(
            f"{named} cannot be read: {error.strerror}. Every host needs the file, under this path "
            "and with the same digits."
        ) from None
    try:
        problem = why_not_private(os.fstat(descriptor), os.geteuid())
        if problem:
            raise ValueError(f"{named} {problem}. {_MAKE_FILE}")
        text = os.read(descriptor, _FILE_BYTES)
    finally:
        os.close(descriptor)
    return parse(text.decode(errors="replace").strip(), f"what {named} names")


def why_not_private(status: os.stat_result, user: int) -> str:
    """Returns what is wrong with a file for secrets of this user; empty: nothing."""
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_uid != user:
        return f"belongs to user {status.st_uid}, and this process runs as user {user}"
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return (
            f"is open to others: its mode is {stat.S_IMODE(status.st_mode):04o}, and has to be 0600"
        )
    return ""


def from_environment(environ: Mapping[str, str]) -> bytes | None:
    """Returns the secret that this process was given, or None."""
    descriptor = environ.get(DESCRIPTOR_VARIABLE)
    if descriptor:
        if not descriptor.isdecimal():
            raise ValueError(
                f"{DESCRIPTOR_VARIABLE}={descriptor!r} is not allowed: expected a descriptor "
                "number."
            )
        return load(int(descriptor))
    return of_the_user(environ)


def of_the_user(environ: Mapping[str, str]) -> bytes | None:
    """Returns the secret that the user has chosen, as a text or in a file; None: a new one has to
    be made. Raises ValueError with a sentence."""
    text, path = environ.get(TEXT_VARIABLE), environ.get(FILE_VARIABLE)
    in_text = parse(text) if text else None
    in_file = read(path) if path else None
    if in_text and in_file and in_text != in_file:
        raise ValueError(
            f"{TEXT_VARIABLE} and {FILE_VARIABLE} are both set, and to different secrets: unset "
            "one of them."
        )
    return in_text or in_file
