"""What the frameworks' `elastic` modules say as long as they are empty."""

from __future__ import annotations

from typing import NoReturn


def not_yet(name: str) -> NoReturn:
    """To be a module's __getattr__."""
    raise AttributeError(
        f"hvdlite has no elastic training yet, and so no elastic.{name}: take the elastic parts out and save checkpoints, "
        "from which the job can be started again."
    )
