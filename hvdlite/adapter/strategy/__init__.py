"""hvd.Strategy: everything that a program asks of its communication, in one object.

strategy    START HERE: the description, how DistributedOptimizer() follows it, and in words
options     what may be chosen in each part, and what is chosen (decides)
support     what a framework has for the parts
"""

from hvdlite.adapter.strategy.strategy import Strategy, apply
from hvdlite.adapter.strategy.support import KERAS_HAS_IT, NO_LAYERS, OF_TORCH, Support

__all__ = ["KERAS_HAS_IT", "NO_LAYERS", "OF_TORCH", "Strategy", "Support", "apply"]
