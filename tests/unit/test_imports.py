"""What init() imports, what adapters import beyond their framework, which each rank pays for at
each start, and what pytest imports to list the tests.

Modules are counted, not seconds, which depend on the machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from suites.table import ROOT

import hvdlite

# Keras' own backend for torch imports torch's compiler, which this is not about.
_SURROUNDINGS = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
_OURS = {"hvdlite", "cloudpickle"}
# Its public interface to primitives, which `import jax` leaves out.
_PARTS = {"jax": {"jax.extend", "jax.experimental", "jax._src"}}
# TensorFlow makes a module without a file for each library of operations that it loads.
_PROGRAM = """
import sys, {framework}
before = set(sys.modules)
import hvdlite.{framework} as hvd
hvd.init  # names of torch are looked up lazily
print(*(name for name, module in sys.modules.items()
        if name not in before and getattr(module, '__file__', None)))
"""


@pytest.mark.parametrize(
    "framework",
    ["torch", *(pytest.param(f, marks=pytest.mark.costly) for f in ("tensorflow", "jax", "keras"))],
)
def test_an_adapter_imports_no_more_than_it_needs(framework: str) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(framework=framework)],
        env=os.environ | _SURROUNDINGS, capture_output=True, text=True, check=True,
    )  # fmt: skip
    new = set(done.stdout.split())
    assert f"hvdlite.{framework}.optimizer" in new
    parts = {".".join(name.split(".")[:2]) for name in new if name.partition(".")[0] == framework}
    assert parts <= _PARTS.get(framework, set())
    others = {name.partition(".")[0] for name in new} - {framework}
    assert others <= _OURS | sys.stdlib_module_names


# Each costs up to ten milliseconds of a processor, with what it imports itself.
_NOT_FOR_INIT = set(
    "argparse asyncio cloudpickle dataclasses datetime decimal encodings.idna fcntl gzip inspect "
    "ipaddress json logging numpy pathlib queue random secrets statistics subprocess tempfile "
    "traceback urllib.parse "
    "hvdlite.base.bundle hvdlite.launch.last_words hvdlite.launch.monitor.board "
    "hvdlite.rendezvous.server".split()
)
_INIT = """
import sys, hvdlite
hvdlite.init()
print(*sys.modules)
"""


@pytest.mark.parametrize("launched", [False, True])
def test_init_imports_no_more_than_it_needs(launched: bool) -> None:
    # -S: where hvdlite is installed in place, `site` imports pathlib to find it.
    rank = [sys.executable, "-S", "-c", _INIT]
    launcher = [sys.executable, "-m", "hvdlite.launch.cli", "-np", "1"]
    done = subprocess.run(
        [*launcher, *rank] if launched else rank,
        env=os.environ | {"PYTHONPATH": str(Path(hvdlite.__file__).parents[1])},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = set(done.stdout.split())
    # A rank without a launcher meets no other, and has no secret to prove.
    asks_a_store = {"hvdlite.rendezvous.client", "hvdlite.job.pulse", "hashlib"}
    assert imported & asks_a_store == (asks_a_store if launched else set())
    assert not imported & _NOT_FOR_INIT


def test_pytest_lists_the_tests_without_importing_a_framework() -> None:
    program = (
        "import sys, pytest\n"
        "code = pytest.main(['--collect-only', '-qq', 'tests/conformance', 'tests/multiprocess'])\n"
        "imported = {'torch', 'tensorflow', 'keras', 'tf_keras', 'jax', 'sklearn'} & "
        "set(sys.modules)\n"
        "sys.exit(f'imported: {imported}' if imported else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
