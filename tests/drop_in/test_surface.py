"""What `hvdlite doctor` reads from hvdlite's sources is what the modules have when they are
imported."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from machine import within

ROOT = Path(__file__).resolve().parents[2]

_COMPARE = """
import inspect, sys
from importlib import import_module
from hvdlite import compat
from hvdlite.tools.doctor import advice, surface

compat.activate()
wrong, compared = [], 0
for module, of_horovod in advice.HOROVOD.items():
    if not module.startswith(tuple(sys.argv[1:])):
        continue
    if isinstance(surface.look_up(module), surface.MissingName):
        try:
            import_module(module)
        except ImportError:
            continue
        wrong.append(f"{module} can be imported")
    real = import_module(module)
    for name in of_horovod | set(surface.public_names(module)):
        read = surface.look_up(f"{module}.{name}")
        if read == surface.MissingName(module, name):
            there = getattr(real, name, None)
            if there is not None and getattr(there, "__all__", None) != []:
                wrong.append(f"{module}.{name} is there")
            continue
        if not hasattr(real, name):
            try:
                import_module(f"{module}.{name}")
            except ImportError:
                wrong.append(f"{module}.{name} is not there")
            continue
        if read.parameters is not None:
            compared += 1
            if list(read.parameters) != list(inspect.signature(getattr(real, name)).parameters):
                wrong.append(f"{module}.{name} has other parameters than {read.parameters}")
print(compared, wrong)
"""


@pytest.mark.costly
@pytest.mark.parametrize(
    ("frameworks", "modules", "functions"),
    [
        ((), ("horovod.common", "horovod.runner"), 10),
        (("torch",), ("horovod.torch",), 60),
        (("tensorflow", "keras"), ("horovod.tensorflow", "horovod.keras"), 100),
        (("ray",), ("horovod.ray",), 10),
    ],
    ids=["common", "torch", "tensorflow", "ray"],
)
def test_the_sources_say_what_is_there(
    frameworks: tuple[str, ...], modules: tuple[str, ...], functions: int
) -> None:
    for framework in frameworks:
        if find_spec(framework) is None:
            pytest.skip(f"{framework} is not installed")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        [sys.executable, "-c", _COMPARE, *modules],
        capture_output=True,
        text=True,
        env=environment,
        timeout=within(120),
    )
    assert done.returncode == 0, done.stderr
    compared, _, wrong = done.stdout.strip().splitlines()[-1].partition(" ")
    assert wrong == "[]" and int(compared) >= functions, done.stdout


@pytest.mark.costly
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "keras", "jax"])
def test_what_says_how_a_job_is_has_the_same_name_for_every_framework(framework: str) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    program = f"""
import hvdlite, hvdlite.{framework} as hvd
names = ["metrics", "recent_operations", "start_timeline", "stop_timeline", "elastic", "ProcessSet",
         "rank"]
from hvdlite.job import horovod_basics
shown = set(hvd.__all__) - set(horovod_basics.__all__)
assert dir(hvd) == sorted(shown) and len(set(hvd.__all__)) == len(hvd.__all__)
for name in names:
    assert name in hvd.__all__, name
    if name != "elastic":
        assert getattr(hvd, name) is getattr(hvdlite, name), name
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=within(120)
    )
    assert done.returncode == 0, done.stderr
