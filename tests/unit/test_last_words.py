"""What the launcher quotes of a rank that has failed, and what the rank tells the others."""

from __future__ import annotations

import pytest

from hvdlite.launch.last_words import LastWords, in_one_line, shown

_FRAMES = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    '
    "train()\n    ^^^^^^^\n"
)
_LOG = (
    "[2026-11-23 05:38:20.037 hvdlite 1/2] error: the job has failed: rank 1 failed: "
    "ValueError: bad"
)
# As torch raises a worker's exception again.
_OF_A_WORKER = (
    "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call "
    "last):\n"
    '  File "worker.py", line 351, in _worker_loop\n    data = fetcher.fetch(index)\nValueError: '
    "bad sample 200\n"
)

SAID = {
    "nothing": ("", "", False),
    "no exception": ("one\ntwo\n   \n", "two", False),
    "an exception": (_FRAMES + "ValueError: bad\n", "ValueError: bad", True),
    "one without a text": (_FRAMES + "KeyboardInterrupt\n", "KeyboardInterrupt", True),
    "one that is not called an error": (
        _FRAMES + "trainer.Boom: no more\nbye\n", "trainer.Boom: no more", True,
    ),
    "more lines behind it": (_FRAMES + "ValueError: bad\nsome warning at "
                                       "exit\n\n", "ValueError: bad", True),
    "an exception of several lines": (
        _FRAMES + "RuntimeError: deprecated\nL, V = torch.linalg.eigh(A)\n", "RuntimeError: "
                                                                             "deprecated", True,
    ),
    "a worker's exception": (_FRAMES + f"RuntimeError: {_OF_A_WORKER}", "ValueError: bad "
                                                                        "sample 200", True),
    "during the handling of another": (
        _FRAMES + "KeyError: 1\n\nDuring handling of the above exception, another exception "
                  "occurred:\n\n" + _FRAMES
        + "a.b.PeerLostError: rank 1\n", "a.b.PeerLostError: rank 1", True,
    ),
    "with hvdlite's log behind it": (
        _FRAMES + f"ValueError: bad\n{_LOG}\n", "ValueError: bad", True,
    ),
    "hvdlite's log, and lines of the program": (f"{_LOG}\nepoch 3\n{_LOG}\n", "epoch 3", False),
    "a warning": ("train.py:3: UserWarning: use dim\n  return F.log_softmax(x)\n", "", False),
    "a warning behind what it has said": (
        "no such folder\nhome/a b/x.py:12: torch.jit.TracerWarning: old\n  x.f()\n",
        "no such folder", False,
    ),
    "a warning that is an error": (
        _FRAMES + "UserWarning: deprecated\n", "UserWarning: deprecated", True,
    ),
    "hvdlite's log alone": (_LOG, "the job has failed: rank 1 failed: ValueError: bad", False),
}  # fmt: skip


def _heard(text: str) -> LastWords:
    words = LastWords()
    for line in text.encode().splitlines(keepends=True):
        words.heard([line])
    return words


@pytest.mark.parametrize("case", SAID)
def test_the_last_line_that_names_an_exception_counts(case: str) -> None:
    text, last, names_an_error = SAID[case]
    assert _heard(text).found() == (last.encode(), names_an_error)
    whole = LastWords()
    whole.heard(text.encode().splitlines(keepends=True))  # however the lines arrive
    assert whole.found() == (last.encode(), names_an_error)


def test_a_long_line_is_cut_and_an_exception_of_long_ago_is_forgotten() -> None:
    assert _heard("ValueError: " + "x" * 999).found()[0].endswith(b"xxx ...")
    assert _heard("ValueError: caught\n" + "fine\n" * 400).found() == (b"fine", False)


def test_of_a_traceback_that_is_too_long_the_end_is_enough() -> None:
    frames = "".join(f'  File "/x/y{n}.py", line {n}, in f\n    do({n})\n' for n in range(800))
    words = _heard(f"Traceback (most recent call last):\n{frames}trainer.Boom: no more\n")
    assert words.found() == (b"trainer.Boom: no more", True)
    assert words.with_place() == b"trainer.Boom: no more at y799.py:799 (f)"


def test_a_terminal_does_not_obey_what_is_shown() -> None:
    assert shown(b"ValueError: \x1b[2J\xff\xc3\xa9") == "ValueError: \\x1b[2J\\xff\xe9"


class Boom(Exception):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (Boom(), "Boom"),
        (Mute(), "Mute"),
        (ValueError("\n  deprecated\nuse x\n"), "ValueError: deprecated ..."),
        (
            RuntimeError(_OF_A_WORKER),
            "RuntimeError: Caught ValueError in DataLoader worker process 0. ... ValueError: bad "
            "sample 200",
        ),
        (ValueError("\x1b[31mred"), "ValueError: \\x1b[31mred"),
    ],
)
def test_an_exception_travels_in_one_line(error: Exception, line: str) -> None:
    assert in_one_line(error) == line


def test_of_a_long_text_both_ends_travel() -> None:
    line = in_one_line(ValueError("a" * 400 + "b" * 400))
    assert (
        len(line) == 500
        and line.startswith("ValueError: aaa")
        and "aaa ... bbb" in line
        and line.endswith("bbb")
    )
