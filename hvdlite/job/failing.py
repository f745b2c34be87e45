"""How the other ranks learn of an exception of this one.

It ends at the top of the program, or in a runner whose process goes on, such as an actor of Ray.
"""

from __future__ import annotations

from types import TracebackType

from hvdlite import _core
from hvdlite.job import frames
from hvdlite.launch.last_words import in_one_line


def tell_the_others(error: BaseException, trace: TracebackType | None) -> str:
    """Ends the job at once: waiting calls of the other ranks raise PeerLostError with this text.
    Returns the text. Does nothing else if this process is in no job."""
    place = frames.place_of_traceback(trace)
    what = in_one_line(error) + (f" at {place}" if place else "")
    if _core.is_initialized():
        _core.abort(what)
    return what
