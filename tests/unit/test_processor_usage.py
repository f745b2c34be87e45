"""Whether other programs use the cores of a job's ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from hvdlite.base import processors
from hvdlite.base.processors import Usage, taken

ALONE = Usage("a", "machine 1", "3", 2, own=0.9, busy=1.9, pressure=0.9)
SHARED = replace(ALONE, own=0.05, busy=2.0)
ELSEWHERE = replace(ALONE, host="b", machine="machine 2", busy=0.1, own=0.1)


def test_others_use_the_host() -> None:
    [found] = taken([SHARED, SHARED])
    assert (found.ranks, found.each, found.cores) == (2, 0.05, 2)
    assert found.others == pytest.approx(1.9)
    assert found.sentence == (
        "The ranks get 5 % of a core each: other programs use 1.9 of the host's 2 cores."
    )


@pytest.mark.parametrize(
    ("ranks", "why"),
    [
        ([], "there is no rank"),
        ([ALONE, ALONE], "the cores are full of the job itself"),
        ([replace(SHARED, busy=1.5)], "a core has time to spare"),
        ([replace(SHARED, pressure=0.1)], "nothing waits for a core"),
        ([replace(SHARED, own=0.8)] * 2, "others use little"),
    ],
)
def test_nothing_is_said(ranks: list[Usage], why: str) -> None:
    assert taken(ranks) == [], why


def test_a_kernel_without_pressure_tells_enough() -> None:
    assert len(taken([replace(SHARED, pressure=None)])) == 1


def test_hosts_of_one_machine_are_one() -> None:
    """Pods of a node: each would take the others' ranks for other programs."""
    pods = [replace(SHARED, host=f"pod{n}", own=0.5) for n in range(4)]
    assert taken(pods) == [] and len(taken(pods[:1])) == 1


def test_one_of_several_hosts_is_named() -> None:
    [found] = taken([SHARED, ELSEWHERE])
    assert found.sentence.startswith("The rank on a gets 5 % of a core: other programs use 1.9 ")


def test_ranks_that_are_bound_to_cores() -> None:
    bound = replace(SHARED, cores=1, busy=1.0)
    [found] = taken([replace(bound, cpus="1"), replace(bound, cpus="2")])
    assert (found.host, found.ranks, found.cores, found.each) == ("", 2, 2, 0.05)
    assert found.others == pytest.approx(1.9)
    [found] = taken([replace(bound, cpus="1"), replace(bound, cpus="2", own=0.9)])
    assert found.sentence.endswith("other programs use 0.9 of the host's core.")


STAT = """\
cpu  9 9 9 9 9 9 9 9 0 0
cpu0 100 20 30 4000 500 6 7 8 0 0
cpu1 1 2 3 4000 500 6 7 8 0 0
intr 5
"""


def test_what_the_kernel_counts() -> None:
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert processors.busy_seconds(STAT, [0]) == pytest.approx(163 * tick)
    assert processors.busy_seconds(STAT, [0, 1]) == pytest.approx((163 + 19) * tick)
    with pytest.raises(ValueError, match="lacks cpu2"):
        processors.busy_seconds(STAT, [1, 2])


def _report(**known: Any) -> dict[str, Any]:
    nothing = {"busy": 0.0, "children": 0.0, "pressure": 0.0}
    return {"machine": "m", "cpus": "3", "cores": 2, **nothing, **known}


def test_two_reports_are_a_usage() -> None:
    found = processors.between("a", _report(), _report(busy=4.0, children=1.0, pressure=1.5), 2.0)
    assert found == Usage("a", "m", "3", 2, own=0.5, busy=2.0, pressure=0.75)
    assert processors.between("a", {}, _report(), 2.0) is None
    assert processors.between("a", _report(), _report(cpus="1"), 2.0) is None
    assert processors.between("a", _report(pressure=None), _report(), 2.0) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("machine", 5),
        ("cpus", None),
        ("cores", 0),
        ("cores", "2"),
        ("busy", "much"),
        ("busy", float("nan")),
        ("children", None),
        ("children", 10**400),
        ("pressure", [1]),
    ],
)
def test_what_is_no_report_is_refused(name: str, value: Any) -> None:
    assert processors.is_report(processors.here()) and processors.is_report({})
    assert processors.is_report(_report(pressure=None)) and not processors.is_report([])
    assert not processors.is_report(_report(**{name: value}))


def test_the_work_of_children_is_the_ranks() -> None:
    """A child of a child works until its parent kills it."""
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        "input()\nchild.kill()\nchild.wait()"
    )
    before = processors.here()["children"]
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as parent:
        while processors.here()["children"] < before + 0.2:
            assert parent.poll() is None
        parent.communicate(b"\n")
    assert before + 0.2 <= processors.here()["children"]
