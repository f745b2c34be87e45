"""The factors of a linear layer's gradient travel instead of the gradient.

reducer     START HERE: sends the factors of the layers that hvdlite.adapter.local.factors chooses
linear      sees the layers in the first step, and is what a chosen one becomes
"""

from __future__ import annotations

from dataclasses import replace

from hvdlite.adapter.hooks.reducer import GradientReducer
from hvdlite.adapter.local import factors
from hvdlite.adapter.local.factors import Mode
from hvdlite.adapter.step import Options
from hvdlite.base.ops import Adasum
from hvdlite.torch.factors.reducer import FactoringReducer


def added(mode: Mode, options: Options) -> Options:
    """The options with what a program passes as `sufficient_factors`, or a ValueError."""
    if factors.checked(mode):
        compression = "" if options.compression.is_none else str(options.compression)
        factors.check(compression, options.groups, options.op == Adasum, options.passes)
    return replace(options, sufficient_factors=mode)


def reducer_for(options: Options) -> type[GradientReducer]:
    """The class of reducer that these options ask for."""
    return FactoringReducer if options.sufficient_factors else GradientReducer
