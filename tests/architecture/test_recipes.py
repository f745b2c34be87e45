"""The recipes of CONTRIBUTING.md: their lists of places are true, and all but one are followed to
the letter, by the changes of tests/recipes in a copy of the tree."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import loaded_script
import pytest
import recipes
from machine import within
from recipes import collective, compressor, knob, launcher

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
#: What stands for NAME where nothing is new yet.
EXAMPLE = {"A compressor": "topk"}
FOLLOWED: dict[str, Sequence[recipes.Change]] = {
    "A knob": knob.CHANGES,
    "A compressor": compressor.CHANGES,
    "A collective": collective.CHANGES,
    "A launcher": launcher.CHANGES,
}


def recipe(title: str) -> str:
    text = CONTRIBUTING.read_text().split("\n## Where do I put it\n")[1].split("\n## ")[0]
    return text.split(f"\n### {title}\n")[1].split("\n### ")[0]


def places(title: str) -> list[tuple[str, str]]:
    """Each file or folder in the recipe's order, and the symbol that is named beside it."""
    items = re.findall(r"^\d+\. `([^`]+)`(?:, `([^`]+)`)?", recipe(title), re.M)
    numbers = re.findall(r"^(\d+)\. ", recipe(title), re.M)
    assert numbers == [str(n + 1) for n in range(len(items))], "an item without a place"
    return items


TITLES = ["A knob", "A compressor", "A collective", "A framework", "A launcher"]


def test_each_recipe_is_looked_at() -> None:
    text = CONTRIBUTING.read_text().split("\n## Where do I put it\n")[1].split("\n## ")[0]
    assert re.findall(r"^### (.*)$", text, re.M) == TITLES
    sections = re.findall(r"^## (.*)$", CONTRIBUTING.read_text(), re.M)
    assert sections == ["Run the tests", "Where do I put it", "How we write"]


@pytest.mark.parametrize("title", TITLES)
def test_each_place_is_there_and_has_what_the_recipe_names(title: str) -> None:
    found = places(title)
    assert len(found) > 5
    for place, symbol in found:
        path = ROOT / place.replace("NAME", EXAMPLE.get(title, "NAME"))
        assert path.exists(), place
        inside = (each for each in sorted(path.rglob("*")) if each.suffix in (".py", ".cc"))
        files = [path] if path.is_file() else inside
        assert not symbol or any(symbol in each.read_text() for each in files), (place, symbol)
    # Files that are named beside the places, and the tests to run.
    for name in re.findall(r"(?:tests|scripts|hvdlite|docs|csrc)/[\w/.-]+", recipe(title)):
        path = ROOT / name.rstrip(".").replace("NAME", EXAMPLE.get(title, "NAME"))
        assert path.exists(), name


def cost_of_change() -> Any:
    return loaded_script.load(ROOT / "scripts" / "cost-of-change")


def test_the_recipe_of_a_collective_names_the_files_that_know_one() -> None:
    """Those that scripts/cost-of-change counts of the collective that was added last."""
    script = cost_of_change()
    pattern = re.compile(script.COLLECTIVES["reduce"])
    knowing = {
        str(path.relative_to(ROOT)) for path in script.sources() if pattern.search(path.read_text())
    }
    named = {place for place, _ in places("A collective") if place.startswith(("csrc", "hvdlite"))}
    assert named == knowing and len(knowing) == script.FILES_OF_REDUCE


#: What names JAX for another reason than being one of the frameworks.
OTHER_REASONS = {
    "hvdlite/core/arrays/framework.py",  # DLPack arrays of jax.Array, by name
    "hvdlite/tools/commands/cli.py",  # a profile of jax.profiler
    "hvdlite/observe/timeline/cli.py",
    "hvdlite/compat/names.py",  # that Horovod never had a module for JAX
    "hvdlite/keras",  # JAX as a backend of Keras
    "hvdlite/tensorflow/xla.py",  # the same custom calls
    "hvdlite/adapter/agreement/drift_guard.py",  # an error that mentions jax.jit
}


def test_the_recipe_of_a_framework_names_what_knows_of_jax() -> None:
    """In code: strings and imports. Comments may name any framework."""
    named = {place for place, _ in places("A framework")}
    known = {"hvdlite/jax", *OTHER_REASONS, *named}
    missing = []
    for path in sorted((ROOT / "hvdlite").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if any(name == each or name.startswith(f"{each}/") for each in known):
            continue
        tree = ast.parse(path.read_text())
        prose = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body
            and isinstance(node.body[0], ast.Expr)
        }  # fmt: skip
        texts = [
            node.value for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            and id(node) not in prose
        ]  # fmt: skip
        if any(re.search(r"\bjax\b", text) for text in texts):
            missing.append(name)
    assert missing == []


# ---- followed to the letter


@pytest.mark.parametrize("title", list(FOLLOWED))
def test_the_example_changes_the_places_of_the_recipe_in_their_order(title: str) -> None:
    only = set(re.findall(r"^\d+\. `([^`]+)`(?:, `[^`]+`)?: only ", recipe(title), re.M))
    named = [place for place, _ in places(title) if place not in only]
    changed = [change.path.replace("rowmeans", "NAME") for change in FOLLOWED[title]]
    assert changed == named


class Copy:
    """A copy of the tree, with the native core that was built here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        leave = shutil.ignore_patterns(
            ".git", ".venv", "build", "build-*", "__pycache__", "*.pyc", ".*_cache", "*.png",
            "node_modules",
        )  # fmt: skip
        shutil.copytree(ROOT, root, ignore=leave, symlinks=True)

    def python(self, *arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("HVDLITE_", "PYTEST_"))}
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.root,
            env=clean | {"PYTHONPATH": str(self.root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=within(seconds))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # a compiler, after the timeout
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def passes(self, *arguments: str) -> None:
        """These tests pass there."""
        done = self.python("-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert re.search(r"\d+ passed", done.stdout), done.stdout


@pytest.fixture
def follow(tmp_path: Path) -> Callable[[str], Copy]:
    def followed(title: str) -> Copy:
        copy = Copy(tmp_path / "copy")
        recipes.apply(FOLLOWED[title], copy.root)
        return copy

    return followed


@pytest.mark.parametrize("title", list(FOLLOWED))
def test_the_changes_of_the_example_can_be_made(follow: Callable[[str], Copy], title: str) -> None:
    """In each tier: what follows them to the end takes minutes, and is drawn."""
    follow(title)


@pytest.mark.costly
def test_a_knob_is_a_row_and_all_else_follows(follow: Callable[[str], Copy]) -> None:
    copy = follow("A knob")
    page = copy.root / "docs" / "reference" / "knobs.md"
    before = page.read_text()
    (written,) = [change for change in knob.CHANGES if isinstance(change, recipes.Written)]
    assert copy.python(*written.command).returncode == 0
    assert "`HVDLITE_LAUNCH_NOTE`" in page.read_text() and "HVDLITE_LAUNCH_NOTE" not in before
    copy.passes(
        "tests/unit/test_knobs.py", "tests/unit/test_launch_flags.py",
        "tests/unit/test_variables.py", "tests/architecture/test_rooms.py",
        "tests/architecture/test_layers.py",
    )  # fmt: skip
    run = ("-m", "hvdlite.launch", "-np", "1", "--launch-note", "hello", sys.executable, "-c", "")
    done = copy.python(*run)
    assert (done.returncode, done.stderr) == (0, "hvdliterun: hello\n")
    page.write_text(before)
    done = copy.python("-m", "pytest", "-q", "tests/unit/test_knobs.py")
    assert "run: python -m hvdlite.base.knobs_page docs/reference/knobs.md" in done.stdout


@pytest.mark.costly
def test_a_compressor_is_a_file_and_a_name(follow: Callable[[str], Copy]) -> None:
    copy = follow("A compressor")
    copy.passes(
        "tests/unit/test_compression_methods.py", "tests/unit/test_strategy.py",
        "tests/architecture/test_rooms.py", "tests/architecture/test_layers.py",
    )  # fmt: skip
    said = copy.python(
        "-c",
        "from hvdlite.adapter.strategy import Strategy\n"
        "print(Strategy(compression='rowmeans').describe())",
    )
    assert "They travel by rowmeans." in said.stdout, said.stdout + said.stderr


@pytest.mark.full
def test_the_compressor_adds_up_on_real_ranks(follow: Callable[[str], Copy]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    chosen = "compressors and rowmeans and shm-2"
    follow("A compressor").passes("tests/conformance/test_torch.py", "-k", chosen)


@pytest.mark.costly
def test_a_launcher_is_a_row_and_a_way_to_meet(follow: Callable[[str], Copy]) -> None:
    copy = follow("A launcher")
    copy.passes(
        "tests/unit/test_environment.py", "tests/unit/test_variables.py",
        "tests/architecture/test_rooms.py", "tests/multiprocess/test_launchers.py", "-k",
        "test_launchers.py and flux or not test_launchers.py",
    )  # fmt: skip


@pytest.mark.full
def test_a_collective_is_a_row_in_the_core_and_a_function_in_each_framework(
    follow: Callable[[str], Copy],
) -> None:
    """Builds the core, which takes minutes."""
    copy = follow("A collective")
    built = copy.python("setup.py", "--quiet", "build_ext", "--inplace", seconds=2000)
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    chosen = "a_portion_is_what_reducescatter_gives and (shm-2 or net-3)"
    copy.passes("tests/conformance/test_conformance.py", "-k", chosen)
    copy.passes(
        "tests/architecture/test_cost_of_change.py", "tests/architecture/test_layers.py",
        "tests/architecture/test_rooms.py",
    )  # fmt: skip
    counted = copy.python("scripts/cost-of-change").stdout
    (files,) = re.findall(r"^portion +(\d+) ", counted, re.M)
    assert int(files) <= cost_of_change().FILES_OF_REDUCE
