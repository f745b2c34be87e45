"""PyTorch Lightning over hvdlite, in the ranks that hvdliterun has started.

    import hvdlite.lightning
    import lightning.pytorch as pl

    trainer = pl.Trainer(strategy=hvdlite.lightning.HvdliteStrategy())

Lightning is two packages, `lightning` and `pytorch_lightning`, with classes of their own. The names
HvdliteStrategy and HvdliteEnvironment are those for the package that the program has imported when
it uses them; `make("pytorch_lightning")` returns those for one package.

    packages      START HERE: the classes for a package
    strategy      what Lightning asks a strategy, and about this rank's place
    in_place      HvdliteStrategy(elastic=True): fit() where it is when ranks die and come
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hvdlite.lightning.packages import Classes as Classes
from hvdlite.lightning.packages import imported as _imported
from hvdlite.lightning.packages import make as make
from hvdlite.lightning.packages import preferred as _preferred

if TYPE_CHECKING:
    HvdliteStrategy: Any
    HvdliteEnvironment: Any

__all__ = ["HvdliteEnvironment", "HvdliteStrategy", "make"]

for _package in _imported():  # registers the strategy's name
    make(_package)


def __getattr__(name: str) -> Any:
    if name == "HvdliteStrategy":
        return make(_preferred()).strategy
    if name == "HvdliteEnvironment":
        return make(_preferred()).environment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
