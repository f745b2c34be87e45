"""Optuna's trials on all ranks of a job, or of a process set.

    hvdlite.optuna.optimize(study, objective, n_trials=20)

calls the objective of each trial on all ranks, which train one model together. The first rank alone
has a study and talks to its storage.

    study       START HERE: optimize()
    trial       the trial that all ranks have
    exchange    the only collective: each rank says what it does, and hears all others
    agreement   decides what follows from that; an error that travels to other ranks
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvdlite.optuna.study import optimize as optimize
    from hvdlite.optuna.trial import Trial as Trial

__all__ = ["Trial", "optimize"]

_HOMES = {"Trial": "hvdlite.optuna.trial", "optimize": "hvdlite.optuna.study"}
_OLDEST = 4


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _check()
    return getattr(import_module(_HOMES[name]), name)


def _check() -> None:
    """Raises ImportError unless Optuna is there and new enough."""
    try:
        version = metadata.version("optuna")
    except metadata.PackageNotFoundError:
        version = ""
    if int(version.partition(".")[0] or 0) >= _OLDEST:
        return
    raise ImportError(
        f"hvdlite.optuna needs Optuna {_OLDEST} or newer, and {version or 'none'} is installed: "
        'pip install ".[optuna]" in a clone of hvdlite',
        name="optuna",
    )
