"""Says how to install Ray if it is missing or too old."""

from __future__ import annotations

from importlib import metadata

_OLDEST = (2, 9)


def check() -> None:
    """Raises ImportError with one sentence if `import ray` would not do."""
    try:
        version = metadata.version("ray")
    except metadata.PackageNotFoundError:
        raise ImportError(
            'hvdlite.ray needs Ray, which is not installed: pip install ".[ray]" in a clone of '
            "hvdlite"
        ) from None
    if _numbers(version) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ImportError(
            f"hvdlite.ray needs Ray {oldest}, and {version} is installed: "
            'pip install ".[ray]" in a clone of hvdlite'
        )


def _numbers(version: str) -> tuple[int, ...]:
    first, second = version.split(".")[:2]
    return int(first), int("".join(filter(str.isdigit, second)) or 0)
