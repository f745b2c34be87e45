"""What hvdlite.spark needs besides hvdlite, in one sentence each."""

from __future__ import annotations

import importlib

_OLDEST = (4, 0)


def need_pyspark() -> None:
    """Raises ImportError if there is no pyspark, or only an old one."""
    try:
        import pyspark
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise ModuleNotFoundError(
            'hvdlite.spark needs pyspark: pip install ".[spark]" in a clone of hvdlite',
            name="pyspark",
        ) from None
    if not is_new_enough(pyspark.__version__):
        raise ImportError(
            f"hvdlite.spark needs pyspark {'.'.join(map(str, _OLDEST))} or newer, and this is "
            f'{pyspark.__version__}: pip install -U ".[spark]" in a clone of hvdlite'
        )


def is_new_enough(version: str) -> bool:
    """Pure."""
    numbers = tuple(int(word) for word in version.split(".")[:2] if word.isdecimal())
    return numbers >= _OLDEST


def need(module: str, what: str, extra: str = "spark") -> None:
    """Raises ImportError if `module`, which `what` needs, is not installed."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise ModuleNotFoundError(
            f'{what} needs {module}: pip install ".[{extra}]" in a clone of hvdlite', name=module
        ) from None
