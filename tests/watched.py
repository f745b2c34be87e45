"""The fixtures of tests with processes: each test has a watchdog, and leaves no process behind."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from launched import Job
from machine import within

WATCHDOG_SECONDS = 60


@pytest.fixture(autouse=True)
def watchdog(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that hangs fails, and the next one runs."""
    marker = request.node.get_closest_marker("watchdog")
    seconds = marker.args[0] if marker else WATCHDOG_SECONDS

    def bark(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"the test took longer than {within(seconds):g} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, within(seconds))
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job; the test fails if a process of it remains."""
    job = Job(tmp_path)
    yield job
    left = job.wait_until_gone(3.0)
    command_lines = []
    for pid in left:
        with contextlib.suppress(OSError):
            command_lines.append(
                Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            )
            os.kill(pid, signal.SIGKILL)
    for process in job.started:
        process.kill()
        process.communicate()
    assert not command_lines, f"processes remain: {command_lines}"
