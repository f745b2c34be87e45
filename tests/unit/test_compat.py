"""Horovod's names for hvdlite: which module stands for which, and how a process gets to see
them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from machine import within

from hvdlite import compat
from hvdlite.compat import names
from hvdlite.compat.__main__ import interpreter_options

ROOT = Path(__file__).resolve().parents[2]


def _python(
    *arguments: str, cwd: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess[str]:
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("HVDLITE_", "HOROVOD_", "PYTHON"))
    }
    clean["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=clean | variables,
        timeout=within(60),
        cwd=cwd,
    )


def _aliased(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return _python("-c", code, **compat.environment({"PYTHONPATH": str(ROOT)}), **variables)


@pytest.mark.parametrize(
    ("horovod", "hvdlite"),
    [
        ("horovod", None),
        ("horovod.torch", "hvdlite.torch"),
        ("horovod.torch.mpi_ops", "hvdlite.torch.mpi_ops"),
        ("horovod.tensorflow.keras.callbacks", "hvdlite.tensorflow.keras.callbacks"),
        ("horovod.tensorflow.gradient_aggregation", "hvdlite.tensorflow.aggregation"),
        ("horovod.keras", "hvdlite.keras"),
        ("horovod.ray.runner", "hvdlite.ray.runner"),
        ("horovod.common.exceptions", "hvdlite.exceptions"),
        ("horovod.common.process_sets", "hvdlite.job.process_sets"),
        ("horovod.common.util", None),
        ("horovod.runner.launch", None),
        ("horovod.torchvision", None),
    ],
)
def test_which_module_stands_for_which(horovod: str, hvdlite: str | None) -> None:
    assert names.target(horovod) == hvdlite


def test_the_environment_puts_the_alias_first_once_and_keeps_the_rest() -> None:
    once = compat.environment({"PYTHONPATH": "/a::/b", "OTHER": "x"})
    assert once == {"PYTHONPATH": os.pathsep.join([compat.DIRECTORY, "/a", "", "/b"])}
    assert compat.environment(once) == once
    # and not the current directory
    assert compat.environment({}) == {"PYTHONPATH": compat.DIRECTORY}


def test_modules_are_the_same_objects_under_both_names() -> None:
    done = _aliased("""
import sys, horovod, hvdlite
heavy = {"numpy", "torch", "tensorflow", "keras", "hvdlite._core"}
assert not heavy & set(sys.modules), "import horovod is cheap"
assert not hasattr(horovod, "nothing") and horovod.run is horovod.runner.run is hvdlite.run
import horovod.common.exceptions, hvdlite.exceptions, hvdlite.job.process_sets
from horovod.common import process_sets
assert horovod.common.exceptions is hvdlite.exceptions and process_sets is hvdlite.job.process_sets
before = hvdlite.exceptions.__spec__.name
horovod.common.exceptions.HorovodInternalError = "patched"
assert hvdlite.exceptions.HorovodInternalError == "patched" and before == "hvdlite.exceptions"
import importlib, importlib.metadata
assert importlib.import_module(".common", "horovod") is horovod.common
assert horovod.__version__ == importlib.metadata.version("horovod") == "0.28.1"
from horovod.common.basics import HorovodBasics
assert HorovodBasics().gloo_built()
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("horovod.ray.nothing", "hvdlite has no horovod.ray.nothing: "),
        ("horovod.mxnet", "no longer maintained"),
        ("horovod.data", "DataLoader"),
        ("horovod.nothing", "docs/guides/migrating.md"),
        ("horovod.common.nothing", "hvdlite has no horovod.common.nothing: "),
    ],
)
def test_what_is_not_there_says_what_to_do(name: str, advice: str) -> None:
    done = _aliased(f"import {name}")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith("ModuleNotFoundError: ") and advice in last


def test_a_framework_that_is_missing_is_what_the_error_names() -> None:
    done = _aliased("import sys; sys.modules['torch'] = None; import horovod.torch")
    assert "import of torch halted" in done.stderr and "hvdlite has no" not in done.stderr


def test_a_library_that_is_missing_is_one_sentence_with_the_command() -> None:
    done = _aliased("import sys; sys.modules['pyspark'] = None; import horovod.spark")
    assert done.stderr.splitlines()[-1] == (
        'ModuleNotFoundError: hvdlite.spark needs pyspark: pip install ".[spark]" in a '
        "clone of hvdlite"
    )


def test_attributes_of_horovods_arguments_become_flags_again() -> None:
    """A launcher of a library sets them on an object of its own; None: not given."""
    done = _aliased("""
import sys
from horovod.runner import _HorovodArgs, _arguments
from horovod.runner.launch import parse_args
args = _HorovodArgs()
assert set(vars(args).values()) == {None} and _arguments.words(args) == []
args.num_proc, args.hosts, args.nics, args.verbose = 4, "a:2,b:2", {"eth1", "eth0"}, 2
args.cooldown_range, args.mpi_args, args.use_gloo, args.autotune = (1.5, 5.0), "-x A", True, False
args.fusion_threshold_mb, args.log_with_timestamp, args.disable_cache = 32, True, False
args.command = ["python", "train.py", "--verbose"]
words = _arguments.words(args)
assert words == ["--num-proc=4", "--hosts=a:2,b:2", "--mpi-args=-x A", "--verbose", "--gloo",
                 "--blacklist-cooldown-range", "1.5", "5.0", "--network-interfaces=eth0,eth1",
                 "--log-with-timestamp", "--fusion-threshold-mb=32", "--no-autotune",
                 "--", "python", "train.py", "--verbose"], words
sys.argv = ["horovodrun", *words]
read = parse_args()
for name, value in vars(args).items():
    if value is not None and name not in ("cooldown_range", "verbose", "disable_cache"):
        assert getattr(read, name) == value, (name, value, getattr(read, name))
assert sorted(_arguments.words(read)) == sorted(words), _arguments.words(read)
old = _HorovodArgs()
old.np, old.command = 2, "python train.py"
assert _arguments.words(old) == ["--num-proc=2", "--", "python", "train.py"]
""")
    assert done.returncode == 0, done.stderr


def test_children_have_the_alias_too(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""
import multiprocessing, os, subprocess, sys
import horovod.common.exceptions as e

def name(_):
    import horovod.common.exceptions
    return horovod.common.exceptions.__name__

if __name__ == "__main__":
    for way in ("spawn", "forkserver", "fork"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(pool.map(name, [0])[0])
    version = [sys.executable, "-c", "import horovod; print(horovod.__version__)"]
    print(subprocess.check_output(version, text=True).strip())
    print(sys.argv[1:], sys.path[0] == os.path.dirname(__file__), sys.flags.optimize,
          os.environ["PYTHONPATH"].count("hvdlite/compat/path"))
""")
    done = _python("-O", "-m", "hvdlite.compat", str(script), "-m", "--x")
    assert done.stdout.split("\n") == [
        *["hvdlite.exceptions"] * 3,
        "0.28.1",
        "['-m', '--x'] True 1 1",
        "",
    ], done.stderr


@pytest.mark.parametrize(
    ("line", "arguments", "options"),
    [
        ("python -m hvdlite.compat x.py", 1, []),
        ("python -u -X dev -m hvdlite.compat x.py -m y", 3, ["-u", "-X", "dev"]),
        ("python -um hvdlite.compat -c pass", 2, ["-u"]),
        ("python -W error -mhvdlite.compat -m m", 2, ["-W", "error"]),
    ],
)
def test_options_of_python_are_kept(line: str, arguments: int, options: list[str]) -> None:
    assert interpreter_options(line.split(), arguments) == options


def test_python_m_without_a_program_and_without_an_environment() -> None:
    assert _python("-m", "hvdlite.compat").returncode == 2
    assert "usage: python -m hvdlite.compat" in _python("-m", "hvdlite.compat", "--help").stdout
    done = _python(
        "-I",
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv = ['', 'x.py']\n" + _RUN,
    )
    assert done.returncode == 1 and done.stderr.startswith(
        "hvdlite.compat: python -I and -E ignore PYTHONPATH"
    )


_RUN = "import runpy; runpy.run_module('hvdlite.compat', run_name='__main__')"


def test_the_pytest_plugin_comes_before_conftest_files(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import horovod.common.exceptions\n")
    (tmp_path / "test_it.py").write_text(
        "def test_it():\n    import horovod\n    assert horovod.__version__ == '0.28.1'\n"
    )
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))
    assert _python(*arguments).returncode != 0
    done = _python(*arguments, "-p", "hvdlite.compat.pytest")
    assert done.returncode == 0, done.stdout + done.stderr


def _real_one(directory: Path) -> Path:
    package = directory / "horovod"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '0.27'\n")
    return directory


def test_horovod_itself_gives_way_only_when_asked_and_that_is_said_at_level_info(
    tmp_path: Path,
) -> None:
    real = _real_one(tmp_path)
    program = "import horovod; print(horovod.__version__)"
    assert _python("-c", program, PYTHONPATH=f"{ROOT}:{real}").stdout == "0.27\n"
    both = compat.environment({"PYTHONPATH": f"{ROOT}:{real}"})
    quiet = _python("-c", program, **both)
    assert (quiet.stdout, quiet.stderr) == ("0.28.1\n", "")
    told = _python("-c", program, HOROVOD_LOG_LEVEL="INFO", **both)
    assert told.stdout == "0.28.1\n"
    assert told.stderr.splitlines() == [
        f"hvdlite: horovod is hvdlite in this process; {real}/horovod/__init__.py is not used"
    ]
    late = (
        f"import sys; sys.path.insert(0, {str(real)!r}); import horovod; from hvdlite import "
        "compat; compat.activate()"
    )
    assert "has been imported already, from" in _python("-c", late).stderr
    early = "from hvdlite import compat; compat.activate(); compat.activate(); " + program
    assert _python("-c", early, PYTHONPATH=f"{ROOT}:{real}").stdout == "0.28.1\n"


def test_a_python_without_hvdlite_is_told_so(tmp_path: Path) -> None:
    done = _python("-S", "-c", "import horovod", PYTHONPATH=compat.DIRECTORY, cwd=tmp_path)
    last = done.stderr.splitlines()[-1]
    assert (
        "horovod is a name for hvdlite here" in last and "install hvdlite for this Python" in last
    )


def test_the_helpers_of_horovod_common_util() -> None:
    done = _aliased(_HELPERS)
    assert done.returncode == 0, done.stderr


_HELPERS = """
import os
from horovod.common import util

assert [list(part) for part in util.split_list(list(range(7)), 3)] == [[0, 1, 2], [3, 4], [5, 6]]
assert [n for n in range(10) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8]
assert util.is_iterable("x") and not util.is_iterable(3)
table = {"2.0.0": True, "1.10.0": True, "1.9.3rc1": True, "1.9.2": False, "1.9": False,
         "2": True, "1.9.3+cpu": True}
assert {v: util.is_version_greater_equal_than(v, "1.9.3") for v in table} == table
try:
    util.is_version_greater_equal_than("1.2.3", "1.2")
except ValueError as error:
    assert "like 1.2.3" in str(error)
else:
    raise AssertionError("the second version has three numbers")
with util.env(A="1", B=None):
    assert os.environ["A"] == "1" and "B" not in os.environ
assert "A" not in os.environ
assert not util.extension_available("mxnet") and not util.gpu_available("mxnet")
built = (util.gloo_built(verbose=True), type(util.mpi_built()), type(util.nccl_built()))
assert built == (True, bool, int)
assert util.get_average_backwards_compatibility_fun(None)(None, None) == 0
"""


def test_what_is_borrowed_of_the_launcher_is_there_and_works() -> None:
    program = ROOT / "tests" / "drop_in" / "borrowed" / "from_runner.py"
    done = _python("-m", "hvdlite.compat", str(program))
    assert done.returncode == 0 and done.stdout == "the runner is done\n", done.stderr
