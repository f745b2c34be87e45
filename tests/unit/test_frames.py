"""Where a program is, as the verdict on a stall says it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("hvdlite._core", reason="the native core is not built here")

from hvdlite.job import frames

HVDLITE = os.path.dirname(os.path.dirname(os.path.abspath(frames.__file__)))
STDLIB = os.path.dirname(os.__file__)
PACKAGES = os.path.join(STDLIB, "site-packages")


def stack(*files: tuple[str, str]) -> Any:
    """The innermost frame of functions that call one another; each is (path, name), outermost
    first, and is at line 3."""
    frame = None
    for path, name in files:
        code = SimpleNamespace(co_filename=path, co_name=name, co_qualname=name)
        frame = SimpleNamespace(f_code=code, f_lineno=3, f_back=frame)
    return frame


def here(name: str) -> str:
    return os.path.join(os.getcwd(), name)


@pytest.mark.parametrize(
    ("files", "text", "in_hvdlite"),
    [
        ([(here("train.py"), "<module>")], "train.py:3", False),
        (
            [(here("train.py"), "<module>"), (here("train.py"), "evaluate")],
            "train.py:3 (evaluate)",
            False,
        ),
        ([("/elsewhere/train.py", "evaluate")], "train.py:3 (evaluate)", False),
        ([(here("models/net.py"), "forward")], "models/net.py:3 (forward)", False),
        (
            [(here("train.py"), "step"), (f"{HVDLITE}/core/handles.py", "wait")],
            "train.py:3 (step)",
            True,
        ),
        (
            [
                (here("train.py"), "step"),
                (f"{HVDLITE}/torch/optimizer.py", "step"),
                (f"{PACKAGES}/torch/optim/sgd.py", "step"),
            ],
            "train.py:3 (step)",
            True,
        ),
        (
            [(here("train.py"), "load"), (f"{STDLIB}/queue.py", "get")],
            "train.py:3 (load), in queue.py:3 (get)",
            False,
        ),
        (
            [
                (here("train.py"), "train"),
                (f"{PACKAGES}/torch/utils/data/dataloader.py", "_try_get_data"),
                (f"{STDLIB}/queue.py", "get"),
            ],
            "train.py:3 (train), waiting for a worker of the DataLoader in queue.py:3 (get)",
            False,
        ),
        (
            [(f"{PACKAGES}/trainer/run.py", "fit"), (f"{HVDLITE}/core/handles.py", "wait")],
            "trainer/run.py:3 (fit)",
            True,
        ),
        ([("<string>", "work")], "<string>:3 (work)", False),
    ],
)
def test_the_place_is_the_innermost_frame_of_the_users_code(
    files: list[tuple[str, str]], text: str, in_hvdlite: bool
) -> None:
    assert frames.place_of(stack(*files)) == frames.Location(text, in_hvdlite)


def test_a_line_has_the_same_name_wherever_the_program_lies() -> None:
    handles = (f"{HVDLITE}/core/handles.py", "wait")
    for folder in ("/a", "/b/c"):
        assert frames.name_of_line(stack((f"{folder}/t.py", "f"), handles)) == "f() t.py:3"
    assert frames.name_of_line(stack(("t.py", "<module>"), handles)) == "t.py:3"


def test_a_thread_without_python_code_has_no_place() -> None:
    assert frames.place_of(None).text == "no Python code"


def test_an_exception_has_the_place_in_the_users_code() -> None:
    try:
        int("x", base=os.getpid())
    except ValueError as error:
        line = sys._getframe().f_lineno - 2
        name = "test_an_exception_has_the_place_in_the_users_code"
        found = frames.place_of_traceback(error.__traceback__)
        assert found.endswith(f"test_frames.py:{line} ({name})")
    try:
        os.fspath(3)  # type: ignore[call-overload]
    except TypeError as error:
        assert "test_frames.py" in frames.place_of_traceback(error.__traceback__)
    assert frames.place_of_traceback(None) == ""


@contextmanager
def elsewhere(work: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=work, name="a thread of the test")
    thread.start()
    yield
    thread.join()


def test_stacks_are_those_of_the_other_threads_and_the_main_thread_is_the_first() -> None:
    found: list[list[frames.Stack]] = []
    with elsewhere(lambda: found.append(frames.stacks())):
        pass
    (stacks,) = found
    assert stacks[0].main and stacks[0].name == "MainThread"
    assert "a thread of the test" not in [stack.name for stack in stacks]
    assert any("test_frames.py" in line for line in stacks[0].lines)


def test_a_folder_that_has_been_removed_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert "test_frames.py" in frames.place_of(sys._getframe()).text
