"""Where other programs find the ranks' numbers, as the command line says."""

from __future__ import annotations

from dataclasses import dataclass

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Outlets:
    port: int | None = None  # None: no page; 0: any port
    address: str = LOOPBACK
    file: str | None = None

    def __bool__(self) -> bool:
        return self.port is not None or self.file is not None
