"""Runs torch's own distributed tests in this process and in ranks that it forks: see torch_suites.

    python torch_child.py BACKEND REPORT FILE [NAME ...]

BACKEND is gloo, or hvdlite, which then takes the place of gloo in every group that a test makes.
FILE is a file of torch's source tree, or `wheel`: what is in torch's installed package. Each NAME
is a part of a test's name. REPORT gets a line of JSON for each test when it has ended.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

# What torch's file asks for while it is imported. It has lists of backends, so both are gloo.
os.environ |= {
    "BACKEND": "gloo",
    "WORLD_SIZE": "4",
    "INIT_METHOD": "file://",
    "OMP_NUM_THREADS": "1",
}
os.environ.setdefault("TEMP_DIR", "/tmp")

import torch  # noqa: E402
from torch import distributed as dist  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

_MADE = multiprocessing.Value("i", 0)  # groups of hvdlite, in all ranks


def main() -> None:
    backend, report, file, *names = sys.argv[1:]
    torch.set_num_threads(1)
    # A rank that is forked need not import torch.
    cases: Any = common_distributed.MultiProcessTestCase
    cases._spawn_processes = lambda case: case._start_processes(_fork)
    module = _wheels() if file == "wheel" else _module(Path(file))
    if backend == "hvdlite":
        _stand_for_gloo()
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    with Path(report).open("a", buffering=1) as lines:
        for case in _each(suite):
            if not names or any(name in case.id() for name in names):
                lines.write(json.dumps(_run(case)) + "\n")


def _fork(**how: Any) -> Any:
    return multiprocessing.get_context("fork").Process(**how)


def _each(suite: Any) -> Iterator[unittest.TestCase]:
    for part in suite:
        if isinstance(part, unittest.TestCase):
            yield part
        else:
            yield from _each(part)


def _run(case: unittest.TestCase) -> dict[str, Any]:
    result = unittest.TestResult()
    _MADE.value = 0
    start = time.monotonic()
    case.run(result)
    bad = [text for _, text in (*result.failures, *result.errors)]
    outcome, why = "passed", ""
    if bad:
        outcome, why = "failed", bad[0].split("\n\nTo execute this test")[0].strip()
    elif result.skipped:
        outcome, why = "skipped", result.skipped[0][1]
    return {
        "test": ".".join(case.id().split(".")[-2:]),
        "outcome": outcome,
        "why": why[-4000:],
        "seconds": round(time.monotonic() - start, 1),
        "groups": _MADE.value,
    }


def _module(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _wheels() -> ModuleType:
    """torch's package has the tests, but no class that unittest would run."""
    from torch.testing._internal.distributed import distributed_test as tests

    class TestDistributed(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()  # type: ignore[no-untyped-call]
            self._spawn_processes()

    module = ModuleType("torch_of_the_wheel")
    TestDistributed.__module__ = module.__name__
    module.TestDistributed = TestDistributed  # type: ignore[attr-defined]
    return module


def _stand_for_gloo() -> None:
    """Programs would name hvdlite. These tests name gloo, by argument and by default."""
    import hvdlite.torch.distributed  # noqa: F401  registers the backend

    c10d: Any = dist.distributed_c10d
    torchs = c10d._new_process_group_helper

    def helper(size: int, rank: int, ranks: Any, backend: Any, *rest: Any, **how: Any) -> Any:
        names = {part.rpartition(":")[2] for part in str(backend).split(",")}
        if names <= {"gloo", "undefined"}:
            backend = c10d.Backend("hvdlite")
            with _MADE.get_lock():
                _MADE.value += 1
        return torchs(size, rank, ranks, backend, *rest, **how)

    c10d._new_process_group_helper = helper


if __name__ == "__main__":
    main()
