"""The versions that matter for a job."""

from __future__ import annotations

import sys

import hvdlite

# Libraries whose versions matter if the program has imported them.
_LIBRARIES = ("numpy", "torch", "tensorflow", "keras", "jax", "mpi4py")


def versions() -> dict[str, str]:
    """Of hvdlite, Python, and the libraries that this program has imported."""
    found = {"hvdlite": hvdlite.__version__, "python": sys.version.split()[0]}
    for name in _LIBRARIES:
        module = sys.modules.get(name)
        version = getattr(module, "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found
