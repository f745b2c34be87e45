"""horovod.runner.common.util.host_hash: a text that is equal for processes of one host."""

from __future__ import annotations

import hashlib
import os
import socket

__all__ = ["host_hash"]


def host_hash(salt: str | None = None) -> str:
    """Containers with different CONTAINER_IDs (as in YARN) have different hashes."""
    name = socket.gethostname()
    inside = "".join(text for text in (os.environ.get("CONTAINER_ID", ""), salt or "") if text)
    return (
        f"{name.split('.')[0]}-"
        f"{hashlib.md5(f'{name}{inside}'.encode(), usedforsecurity=False).hexdigest()}"
    )
