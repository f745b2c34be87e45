"""How a member proves that it has written something into the job's store itself. Pure.

All members have the job's secret, and each has a token of its own. A seal is of a label, which says
what kind of thing is sealed, and of the data. Reports (roll.py) and requests carry their seal. Some
keys say all by their name, such as `done/3`; their value is a seal.
"""

from __future__ import annotations

import hmac

from hvdlite.rendezvous.fields import Refused

_KEY = b"hvdlite key 1\n"


def made(label: bytes, data: bytes, token: bytes) -> str:
    return hmac.digest(token, label + data, "sha256").hex()


def fits(label: bytes, data: bytes, token: bytes, found: bytes) -> bool:
    return hmac.compare_digest(made(label, data, token).encode(), found)


def seal(key: str, token: bytes) -> bytes:
    """The value of this key, which is without `elastic/`."""
    return made(_KEY, key.encode(), token).encode()


def check(key: str, value: bytes, token: bytes, member: int) -> None:
    """Raises Refused if another process than the member has written this value."""
    if not fits(_KEY, key.encode(), token, value):
        raise Refused(f"it is not sealed with the token of member {member}")
