"""How a member proves that it has written a key of the job's store itself. Pure.

All members have the job's secret, and each has a token of its own. Some keys say all by their name,
such as `done/3`; their value is a seal.
"""

from __future__ import annotations

import hmac

from hvdlite.rendezvous.fields import Refused

_LABEL = b"hvdlite key 1\n"


def seal(key: str, token: bytes) -> bytes:
    """The value of this key, which is without `elastic/`."""
    return hmac.digest(token, _LABEL + key.encode(), "sha256").hex().encode()


def check(key: str, value: bytes, token: bytes, member: int) -> None:
    """Raises Refused if another process than the member has written this value."""
    if not hmac.compare_digest(seal(key, token), value):
        raise Refused(f"it is not sealed with the token of member {member}")
