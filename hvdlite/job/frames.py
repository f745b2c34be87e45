"""Where a Python program is: the innermost frame of the user's code, and what it waits in. Pure,
but for stacks()."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hvdlite.base.bundle import Stack

_HVDLITE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_LOADER = os.path.join("torch", "utils", "data", "dataloader.py")


class Location(NamedTuple):
    """`text`: "train.py:88 (evaluate)", or "train.py:88 (evaluate), in queue.py:171 (get)" if the
    user's code has called a library. `in_hvdlite`: that library is hvdlite."""

    text: str
    in_hvdlite: bool = False


def is_library(path: str) -> bool:
    """Whether the file belongs to hvdlite, to an installed package or to Python itself."""
    return path.startswith(("<frozen", _HVDLITE, _STANDARD)) or _is_package(path)


def _is_package(path: str) -> bool:
    return any(part in path for part in _PACKAGES) and not path.startswith(_HVDLITE)


def place_of(frame: FrameType | None) -> Location:
    """Where a thread is whose innermost frame is this one."""
    if frame is None:
        return Location("no Python code")
    libraries: list[FrameType] = []  # innermost first
    for each in _outwards(frame):
        if not is_library(_path(each)):
            return _place(each, libraries)
        libraries.append(each)
    # The program itself is an installed package.
    program = next((each for each in libraries if _is_package(_path(each))), frame)
    return Location(_text(program), _is_hvdlite(frame))


def name_of_line(frame: FrameType) -> str:
    """Returns `evaluate() train.py:88`: the innermost line of the user's code, equal on all ranks
    that are there, wherever their program lies."""
    own = next((each for each in _outwards(frame) if not is_library(_path(each))), frame)
    code = own.f_code
    function = "" if code.co_name == "<module>" else f"{code.co_name}() "
    return f"{function}{os.path.basename(code.co_filename)}:{own.f_lineno}"


def place_of_traceback(trace: TracebackType | None) -> str:
    """Where an exception was raised, in the user's code if it was there or below it; empty: there
    is no traceback."""
    text = ""
    own = False
    while trace is not None:
        is_own = not is_library(_path(trace.tb_frame))
        if is_own or not own:
            text, own = _text(trace.tb_frame, trace.tb_lineno), is_own
        trace = trace.tb_next
    return text


def of_main_thread() -> Location:
    """Where the main thread is. Does not stop it."""
    return place_of(sys._current_frames().get(threading.main_thread().ident or 0))


def stacks() -> list[Stack]:
    """The stacks of all threads but the caller's; the main thread is the first."""
    import traceback  # rarely needed

    from hvdlite.base.bundle import Stack

    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = [
        Stack(
            names.get(ident, f"thread {ident}"),
            ident == threading.main_thread().ident,
            [line.rstrip("\n") for line in traceback.format_stack(frame)],
        )
        for ident, frame in sys._current_frames().items()
        if ident != threading.get_ident()
    ]
    return sorted(found, key=lambda stack: not stack.main)


def _place(own: FrameType, libraries: list[FrameType]) -> Location:
    text = _text(own)
    if any(_is_hvdlite(each) for each in libraries):
        return Location(text, True)
    if not libraries:
        return Location(text)
    loads = any(_path(each).endswith(_LOADER) for each in libraries)
    what = "waiting for a worker of the DataLoader in" if loads else "in"
    return Location(f"{text}, {what} {_text(libraries[0])}")


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _path(frame: FrameType) -> str:
    name = frame.f_code.co_filename
    return name if name.startswith(("<", os.sep)) else _folder() + name


def _is_hvdlite(frame: FrameType) -> bool:
    return _path(frame).startswith(_HVDLITE)


def _text(frame: FrameType, line: int | None = None) -> str:
    code = frame.f_code
    function = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
    where = f"{_shown(_path(frame))}:{frame.f_lineno if line is None else line}"
    return where if function == "<module>" else f"{where} ({function})"


def _shown(path: str) -> str:
    """The path from the folder that a person has in mind."""
    for part in _PACKAGES:
        if part in path:
            return path.rpartition(part)[2]
    for folder in (_STANDARD, _folder()):
        if path.startswith(folder):
            return path[len(folder) :]
    return path if path.startswith("<") else os.path.basename(path)


def _folder() -> str:
    try:
        return os.path.join(os.getcwd(), "")
    except OSError:  # it has been removed
        return os.sep
