"""Which processes catch a signal."""

from __future__ import annotations

import os
import signal

import pytest

from hvdlite.launch.spawn.local import catches, catching


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ("Name:\tsh\nSigCgt:\t0000000000000004\nCapInh:\t0\n", True),
        ("Name:\tsh\nSigCgt:\t0000000180004a02\n", False),
        ("Name:\tsh\nSigCgt:\t0000000180004a06\n", True),
        ("Name:\tsh\n", False),
        ("", False),
    ],
)
def test_the_mask_of_a_process_says_whether_it_catches_sigquit(status: str, answer: bool) -> None:
    assert catches(status, signal.SIGQUIT) is answer


def test_this_process_is_found_once_it_catches_the_signal() -> None:
    before = signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    try:
        assert catching([os.getpid()], signal.SIGQUIT) == []
        signal.signal(signal.SIGQUIT, lambda *_: None)
        assert catching([os.getpid(), 1 << 30], signal.SIGQUIT) == [os.getpid()]
    finally:
        signal.signal(signal.SIGQUIT, before)
