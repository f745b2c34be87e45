"""`hvdlite timeline merge` on the timelines and the profiles of real jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from installed import needs_installed
from launched import Job

from hvdlite.observe.timeline import merging, reading

TRAINS = """
import random, time
import numpy as np
import hvdlite as hvd
hvd.init()
r = hvd.rank()
for step in range(20):
    time.sleep(random.random() * 0.004)  # span: this rank computes
    handles = [hvd.allreduce_async(np.ones(3000, np.float32), name=f"g{i}") for i in range(3)]
    for handle in handles: hvd.synchronize(handle)
hvd.shutdown()
"""


def _recorded(job: Job, program: str, ranks: int) -> list[Path]:
    path = job.directory / "trace.json"
    script = job.script(program)
    job.end_well(
        "-np", str(ranks), "python", script,
        HVDLITE_TIMELINE=str(path), HVDLITE_TIMELINE_RANKS="all",
    )  # fmt: skip
    return [path, *(path.with_name(f"trace.rank{rank}.json") for rank in range(1, ranks))]


def _merged(*arguments: str) -> tuple[list[dict[str, Any]], str]:
    command = [sys.executable, "-m", "hvdlite.tools", "timeline", "merge", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    output = done.stdout.splitlines()[-1].split(": ")[0]
    return json.loads(Path(output).read_text())["traceEvents"], done.stdout


def test_three_ranks_become_one_trace_whose_arrows_begin_and_end_in_operations(job: Job) -> None:
    files = _recorded(job, TRAINS, 3)
    events, said = _merged(str(files[0]))
    assert said.count("60 operations, error of the clock 0") == 3
    traces = [reading.read(path.read_text()) for path in files]
    spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for placed in merging.merge(traces).ranks:
        for o in placed.trace.operations:
            assert o.asked is not None and o.ended is not None
            lane = spans.setdefault((placed.trace.rank, o.lane), [])
            lane.append((placed.at(o.asked), placed.at(o.ended)))
    ends = [event for event in events if event["ph"] in "sf"]
    assert ends, "in 20 steps of random length no rank has waited for 10 us"
    for event in ends:
        lane = spans[event["pid"], event["tid"]]
        assert any(a - 1 <= event["ts"] <= b + 1 for a, b in lane), event


def test_operations_tell_the_clocks_of_two_hosts_apart_as_exactly_as_they_say(job: Job) -> None:
    here, there = (reading.read(p.read_text()) for p in _recorded(job, TRAINS, 2))
    exact = merging.align(here, there)
    assert exact.error == 0
    stranger = reading.Clock(there.clock.epoch, "another boot", 0.0)
    estimated = merging.align(here, reading.Trace(1, stranger, there.events, there.operations))
    assert estimated.how == "60 operations" and estimated.error is not None
    assert abs(estimated.shifted(0.0) - exact.shifted(0.0)) <= estimated.error


# The operation is far from the ends of the step: a busy machine reads two clocks apart.
_TORCH = """
import time, torch, hvdlite.torch as hvd
from torch.profiler import profile, record_function, ProfilerActivity
hvd.init()
with profile(activities=[ProfilerActivity.CPU]) as recorded:
    with record_function("the step"):
        time.sleep(0.3)  # span: the step lasts
        hvd.allreduce(torch.ones(1000), name="in the step")
        time.sleep(0.3)  # span: the step lasts
recorded.export_chrome_trace(f"profile{hvd.rank()}.json")
hvd.shutdown()
"""
_JAX = """
import time, jax, jax.numpy as jnp, hvdlite.jax as hvd
hvd.init()
with jax.profiler.trace(f"profile{hvd.rank()}.json"):
    with jax.profiler.TraceAnnotation("the step"):
        time.sleep(0.3)  # span: the step lasts
        hvd.allreduce(jnp.ones(1000), name="in the step")
        time.sleep(0.3)  # span: the step lasts
hvd.shutdown()
"""


@pytest.mark.costly
@pytest.mark.parametrize(("framework", "program"), [("torch", _TORCH), ("jax", _JAX)])
def test_an_operation_lies_inside_the_step_of_its_ranks_profile(
    job: Job, framework: str, program: str
) -> None:
    needs_installed(framework)
    first, _ = _recorded(job, program, 2)
    profiles = [f"--profile={rank}={job.directory / f'profile{rank}.json'}" for rank in range(2)]
    events, _ = _merged(str(first), *profiles)
    for rank in range(2):
        (step,) = [
            e for e in events if e.get("name") == "the step" and e["pid"] // 10_000 == rank + 1
        ]
        operation = [e for e in events if e.get("name") == "allreduce.in the step"
                     and e["pid"] == rank and e["ph"] == "B"]  # fmt: skip
        assert len(operation) == 1
        assert step["ts"] <= operation[0]["ts"] <= step["ts"] + step["dur"]
