"""What the native core knows of generations, in a process that is alone in one."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
from hvdlite import _core

def init(generation):
    _core.init(rank=0, size=1, store=None, store_prefix="g5/", secret=None, knobs={},
               process_sets=[], release="0", generation=generation)

for impossible in ((0, "nonce", 0), (5, "nonce", -1)):
    try:
        init(impossible)
    except ValueError as error:
        assert "a generation has a number, a nonce and a slot" in str(error), error
    else:
        raise AssertionError(impossible)
init((5, "nonce", 3))
for other in (4, 6, -1):
    _core.end_generation(other, "news that come late")
    assert _core.failure() == ""
_core.end_generation(5, "hvdliterun has lost member 2 (rank 1)")
assert _core.failure() == "hvdliterun has lost member 2 (rank 1)"
_core.shutdown(1.0)
_core.end_generation(5, "again")
"""


def test_only_news_about_the_present_generation_end_its_engine() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning: generation 5 has ended: hvdliterun has lost member 2" in done.stderr
    assert "the job has failed" not in done.stderr
