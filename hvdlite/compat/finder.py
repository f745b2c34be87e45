"""Answers every import of horovod and horovod.* with the matching module of hvdlite: the object
itself, not a copy.

So a program that replaces an attribute of horovod.torch has replaced it in hvdlite.torch, and
classes are the same under both names. The few modules without a counterpart in hvdlite are files in
path/horovod.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import CodeType, ModuleType

from hvdlite.compat import names, original


class _Alias(Loader):
    """Puts the module `target` where the import machinery expects the requested module."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> None:
        """Returns an empty module for Python, which no program sees."""

    def exec_module(self, module: ModuleType) -> None:
        asked = module.__name__
        try:
            real = import_module(self._target)
        except ModuleNotFoundError as error:
            if error.name == self._target:
                raise names.missing(asked) from None
            raise
        if names.is_empty(real):
            raise names.missing(asked)
        sys.modules[asked] = real

    def get_code(self, asked: str) -> CodeType | None:
        """For `python -m`."""
        spec = find_spec(self._target)
        return spec.loader.get_code(self._target) if spec else None  # type: ignore[union-attr]


class Finder(MetaPathFinder):
    """Is on sys.meta_path before the finder that searches directories."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "horovod":
            return None
        alias = names.target(fullname)
        if alias is not None:
            is_package = fullname not in names.PROGRAMS
            return ModuleSpec(fullname, _Alias(alias), is_package=is_package)
        spec = PathFinder.find_spec(fullname, [names.DIRECTORY] if path is None else path)
        if spec is None:
            raise names.missing(fullname)
        return spec


def install() -> None:
    """From now on, horovod is hvdlite in this process."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    loaded = sys.modules.get("horovod")
    if loaded is not None and not original.is_alias(loaded.__file__ or os.devnull):
        raise ImportError(
            f"horovod has been imported already, from {loaded.__file__}: ask for hvdlite's alias "
            "before that"
        )
    sys.meta_path.insert(0, Finder())
