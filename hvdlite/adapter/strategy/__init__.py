"""hvd.Strategy: everything that a program asks of its communication, in one object.

`known` has the table of what may be chosen, `reading` checks what a program or a file says against
it, and `choice` is what comes out. `combinations` decides what does not go together, `words` says
a strategy in plain words. `ways` carries a strategy out with what a framework has.
"""

from hvdlite.adapter.strategy.strategy import Strategy
from hvdlite.adapter.strategy.ways import KERAS_HAS_IT, NO_LAYERS, Ways

__all__ = ["KERAS_HAS_IT", "NO_LAYERS", "Strategy", "Ways"]
