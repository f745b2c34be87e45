"""The strategy and the environment for each package of Lightning, and the strategy's name there."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NamedTuple

NAME = "hvdlite"
OLDEST = (2, 6)
# What a program imports -> what has Fabric's classes, and what pip installs.
_FABRIC = {"lightning.pytorch": "lightning.fabric", "pytorch_lightning": "lightning_fabric"}
_PIP = {"lightning.pytorch": "lightning", "pytorch_lightning": "pytorch-lightning"}


class Classes(NamedTuple):
    """For one package."""

    strategy: Any
    environment: Any


@functools.cache
def make(package: str) -> Classes:
    """Returns the classes for `lightning.pytorch` or `pytorch_lightning`, and registers the
    strategy there under the name "hvdlite"."""
    if package not in _FABRIC:
        raise ValueError(f"make({package!r}) is not possible: expected one of {list(_FABRIC)}")
    _check(_PIP[package], _version(_PIP[package]))
    from hvdlite.lightning.strategy import Environment, Strategy

    strategies = import_module(f"{package}.strategies")
    environments = import_module(f"{_FABRIC[package]}.plugins.environments")

    class HvdliteEnvironment(Environment, environments.ClusterEnvironment):  # type: ignore[name-defined,misc]
        __doc__ = Environment.__doc__

    class HvdliteStrategy(Strategy, strategies.DDPStrategy):  # type: ignore[name-defined,misc]
        __doc__ = Strategy.__doc__
        environment_of = HvdliteEnvironment

    _register(strategies, HvdliteStrategy)
    return Classes(HvdliteStrategy, HvdliteEnvironment)


def name_on_import() -> None:
    """Registers the name "hvdlite" in a package of Lightning as soon as the program imports it, so
    that `--trainer.strategy=hvdlite` of LightningCLI finds it. Loads nothing before."""
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds the modules with Lightning's registries as the next finder does."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, dot, module = name.rpartition(".")
        if module != "strategies" or package not in _FABRIC:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run: Any = spec.loader.exec_module

            def run_and_register(strategies: ModuleType) -> None:
                run(strategies)
                _register(strategies, lambda **options: make(package).strategy(**options))

            spec.loader.exec_module = run_and_register  # type: ignore[assignment]
        return spec


def _register(strategies: Any, strategy: Any) -> None:
    about = "DistributedDataParallel over hvdlite"
    strategies.StrategyRegistry.register(NAME, strategy, description=about, override=True)


def imported() -> list[str]:
    """The packages that the program has imported."""
    return [package for package in _FABRIC if package in sys.modules]


def preferred() -> str:
    """The package that the program uses: one that it has imported, else one that is installed."""
    installed = [package for package in _FABRIC if _version(_PIP[package])]
    return next(iter(imported() or installed or _FABRIC))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _check(name: str, version: str | None) -> None:
    """Raises ImportError unless that package is there and new enough."""
    if tuple(map(int, re.findall(r"\d+", version or "")[:2])) >= OLDEST:
        return
    oldest = ".".join(map(str, OLDEST))
    raise ImportError(
        f"hvdlite.lightning needs {name} {oldest} or newer, and {version or 'none'} is installed: "
        'pip install ".[lightning]" in a clone of hvdlite',
        name=name,
    )
