"""The factors of a linear layer's gradient travel instead of the gradient.

`watch` sees in the first step which layers there are, hvdlite.adapter.factors chooses some of them,
`linear` is what such a layer becomes, and `reducer` sends its factors.
"""

from __future__ import annotations

from dataclasses import replace

from hvdlite.adapter import factors
from hvdlite.adapter.factors import Mode
from hvdlite.adapter.hooks.reducer import GradientReducer
from hvdlite.adapter.step import Options
from hvdlite.base.ops import Adasum
from hvdlite.torch.factors.reducer import FactoringReducer


def added(mode: Mode, options: Options) -> Options:
    """The options with what a program passes as `sufficient_factors`, or a ValueError."""
    if factors.settled(mode):
        compression = "" if options.compression.is_none else str(options.compression)
        factors.check(compression, options.groups, options.op == Adasum, options.passes)
    return replace(options, sufficient_factors=mode)


def reducer_for(options: Options) -> type[GradientReducer]:
    """The class of reducer that these options ask for."""
    return FactoringReducer if options.sufficient_factors else GradientReducer
