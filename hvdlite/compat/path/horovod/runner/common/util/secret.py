"""horovod.runner.common.util.secret: keys, and digests that prove that the sender of a message has
the key."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

__all__ = [
    "DIGEST_LENGTH_BYTES",
    "HOROVOD_SECRET_KEY",
    "check_digest",
    "compute_digest",
    "make_secret_key",
]

HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"
DIGEST_LENGTH_BYTES = 32


def make_secret_key() -> bytes:
    """A new key, in letters and digits."""
    return base64.b64encode(os.urandom(32))


def compute_digest(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, hashlib.sha256)


def check_digest(key: bytes, message: bytes, digest: bytes) -> bool:
    return hmac.compare_digest(digest, compute_digest(key, message))
