"""A test waits for events, not for times: every `sleep` in tests says why it is one.

    # span: reason      time itself is the promise, or what is claimed not to happen would happen
                        within it
    # poll              a loop that looks for an event
    # until killed      a process that lives until somebody ends it

on the line of the sleep or on the one above it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

# As a call, in a rank's program as well; not as a name of the test's own, nor torch.cuda._sleep.
_SLEEP = re.compile(r"(?<!def )(?<![\w\"'])(?:time\.)?u?sleep\((?!\))")
_REASON = re.compile(r"# (span: \w|poll\b|until killed\b)")


def unexplained(text: str) -> list[int]:
    """The numbers of the lines that sleep without a reason."""
    lines = ["", *text.splitlines()]
    return [
        number
        for number, line in enumerate(lines)
        if _SLEEP.search(line)
        and not any(_REASON.search(place) for place in lines[number - 1 : number + 1])
    ]


def test_every_sleep_says_why() -> None:
    """But those of suites/, which are no tests."""
    files = {
        str(path.relative_to(TESTS)): path for path in TESTS.rglob("*.py") if path != Path(__file__)
    }
    found = {
        name: unexplained(path.read_text())
        for name, path in files.items()
        if not name.startswith("suites/")
    }
    assert len(files) > 100
    assert {name: lines for name, lines in found.items() if lines} == {}, (
        "wait for an event, or say `# span: reason`, `# poll` or `# until killed`"
    )


@pytest.mark.parametrize(
    "line",
    [
        "time.sleep(0.3)",
        "    sleep(1)",
        "time.sleep(PAUSE)",
        "time.sleep(1.5 * limit)",
        '    "if RANK == 1: time.sleep(0.5); os._exit(5)\\n"',
        'script = f"time.sleep({seconds})"',
        "ctypes.PyDLL(None).usleep(int(long * 1e6))",
        "time.sleep(0.3)  # the others come",
        "time.sleep(0.3)  # span:",
    ],
)
def test_a_sleep_is_found(line: str) -> None:
    assert unexplained(f"# span: of another line\n\n{line}\n") == [3]


@pytest.mark.parametrize(
    "text",
    [
        "time.sleep(3)  # span: longer than the limit\n",
        "# span: longer than the limit\ntime.sleep(3)\n",
        "    time.sleep(0.01)  # poll\n",
        '"while True: time.sleep(600)\\n"  # until killed\n',
        "torch.cuda._sleep(2_000_000)\n",
        "def sleep(seconds: float) -> None: ...\n",
        'job.script("sleep 600")\n',
    ],
)
def test_a_reason_is_seen(text: str) -> None:
    assert not unexplained(text)
