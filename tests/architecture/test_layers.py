"""docs/how-it-works/architecture.md is the house as it stands: its table of layers and its
invariants, checked against the files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from imports import imported

from hvdlite.base import knobs, operations

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
SOURCES = sorted(p for p in CSRC.rglob("*") if p.suffix in (".h", ".cc"))


def _layers() -> dict[str, set[str]]:
    """The table: folder -> what it may include."""
    page = (ROOT / "docs" / "how-it-works" / "architecture.md").read_text()
    table = page.split("## The layers")[1].split("The Python folders")[0]
    rows = re.findall(r"^\| (\w+) \| ([\w ]*)\|", table, re.M)
    return {folder: set(may.split()) for folder, may in rows if folder != "folder"}


LAYERS = _layers()


def _code(path: Path) -> str:
    """Without comments and string literals, so that prose may name what code may not."""
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', path.read_text())
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def _layer(path: Path) -> str:
    return path.relative_to(CSRC).parts[0]


def test_the_table_names_every_folder_and_points_one_way() -> None:
    assert set(LAYERS) == {p.name for p in CSRC.iterdir() if p.is_dir() and any(p.rglob("*.*"))}
    above: set[str] = set()
    for folder, may in reversed(list(LAYERS.items())):
        assert not may & (above | {folder}), f"{folder} may include what lies above it"
        above.add(folder)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(CSRC)))
def test_includes_follow_the_table(path: Path) -> None:
    layer = _layer(path)
    for target in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
        folder = target.split("/")[0]
        assert folder in LAYERS, f"{target}: includes are written from csrc/"
        assert folder == layer or folder in LAYERS[layer], f"{layer} may not include {target}"


def test_a_namespace_is_a_folder() -> None:
    """base is `hvdlite` itself, whose words all folders use; the folders of the engine are one
    namespace."""
    for path in SOURCES:
        folders = path.parent.relative_to(CSRC).parts
        expected = (
            () if folders == ("base",) else folders[:1] if folders[0] == "engine" else folders
        )
        for name in re.findall(r"^namespace (hvdlite[\w:]*)", path.read_text(), re.M):
            assert (name + "::").startswith("::".join(("hvdlite", *expected, ""))), (
                f"{path} is in {name}"
            )


def test_siblings_of_a_folder_do_not_include_one_another() -> None:
    # By design: hierarchical is made of shm's pieces, and gpu hands to nccl what that can do. Both
    # carry out allreduces of compressed in ways of their own.
    allowed = {("hierarchical", "shm"), ("gpu", "nccl")}
    allowed |= {("hierarchical", "compressed"), ("gpu", "compressed")}
    for path in SOURCES:
        parts = path.relative_to(CSRC).parts
        if parts[0] not in ("transport", "comm") or len(parts) < 3:
            continue
        for layer, sibling in re.findall(
            r'^#include "(transport|comm)/(\w+)/', path.read_text(), re.M
        ):
            if layer == parts[0] and sibling != parts[1]:
                assert (parts[1], sibling) in allowed, (
                    f"{'/'.join(parts)} includes {layer}/{sibling}"
                )


def test_no_framework_header_and_python_only_in_bindings() -> None:
    for path in SOURCES:
        for target in re.findall(r"^#include [<\"]([^>\"]+)", path.read_text(), re.M):
            assert not target.startswith(
                ("torch/", "ATen/", "tensorflow/", "xla/", "jax", "dlpack/", "mpi", "nccl", "cuda")
            )
            if target.startswith(("pybind11/", "Python.h", "numpy/")):
                assert _layer(path) == "bindings", f"{path} includes {target}"


def test_no_getenv_no_exceptions_below_the_bindings_and_no_console() -> None:
    for path in SOURCES:
        code = _code(path)
        assert not re.search(r"\bgetenv\b", code), f"{path} reads the environment"
        if _layer(path) != "bindings":
            assert not re.search(r"\bthrow\b", code), f"{path} throws"
        assert "iostream" not in path.read_text(), f"{path}: log through base/log"


def test_no_global_outside_the_runtime() -> None:
    # g_names and mutable statics at namespace scope; function-local tables are constants or
    # one-time choices.
    for path in SOURCES:
        for line in _code(path).splitlines():
            assert not re.match(
                r"^(static|inline) (?!const|constexpr|constinit)[\w:<>]+ \w+( =|;|\{)", line
            ), f"{path}: {line}"


def test_every_operation_of_ops_def_is_on_the_wire_and_in_python() -> None:
    row = r'^HVDLITE_OP\(\w+, \w+, (\d+), "(\w+)", k(\w+), ([^)]*)\)'
    rows = re.findall(row, (CSRC / "base" / "ops.def").read_text(), re.M)
    assert [int(number) for number, *_ in rows] == list(range(len(rows))), "numbers are consecutive"
    of_core = [
        (int(n), name, result, "kReduces" in traits, "kRooted" in traits)
        for n, name, result, traits in rows
    ]
    of_python = [
        (r.kind, r.name, r.result.title().replace(" ", ""), r.reduces, r.rooted)
        for r in operations.ROWS
    ]
    assert of_python == of_core
    assert all(
        "kGroups" in traits
        for (*_, traits), row in zip(rows, operations.ROWS, strict=True)
        if row.groups
    )


def test_what_holds_for_a_kind_is_a_column_of_ops_def_and_not_its_number() -> None:
    for path in SOURCES:
        assert not re.search(r"[<>]=? *OpKind::|OpKind::\w+ *[<>]", _code(path)), (
            f"{path}: ask ops.def's columns"
        )


def test_the_c_interface_needs_no_other_header() -> None:
    for path in SOURCES:
        includes = re.findall(r'^#include "(\w+)/', path.read_text(), re.M)
        if path.name == "hvdlite.h":
            assert not includes
        if _layer(path) in ("bindings", "ingraph"):
            assert set(includes) <= {"api", _layer(path)}, f"{path} includes {includes}"


def test_every_knob_is_read() -> None:
    """A knob that nothing reads is a promise nobody keeps: HVDLITE_X=1 would be accepted and change
    nothing."""
    code = [_code(p) for p in SOURCES]
    # In Python a knob is read from resolve()'s dictionary, by a string.
    python = [p.read_text() for p in (ROOT / "hvdlite").rglob("*.py") if p.name != "knobs.py"]
    for knob in knobs.KNOBS:
        if knob.about.startswith("Accepted for compatibility with Horovod"):
            continue
        field = re.compile(rf"\bconfig(\.|->){knob.field}\b")
        text = re.compile(rf"""\[["']{knob.field}["']\]""")
        assert any(field.search(c) for c in code) or any(text.search(p) for p in python), (
            f"nothing reads {knob.field}"
        )


@pytest.mark.parametrize("folder", ["launch", "rendezvous", "observe/report"])
def test_what_runs_on_a_login_node_needs_no_core_and_no_framework(folder: str) -> None:
    for path in (ROOT / "hvdlite" / folder).rglob("*.py"):
        for name in imported(path):
            assert name.split(".")[0] not in "numpy torch tensorflow jax keras mpi4py".split(), (
                f"{path}: {name}"
            )
            assert not name.startswith("hvdlite._core"), f"{path}: {name}"
            if name.startswith("hvdlite."):
                assert name.split(".")[1] in (
                    "launch rendezvous compat observe base exceptions __version__".split()
                ), f"{path}: {name}"


FRAMEWORKS = {"torch", "tensorflow", "jax", "keras", "mpi4py", "ray"}


def _python_layers() -> dict[str, tuple[set[str], set[str]]]:
    """The second table: folder of hvdlite -> folders it may import, frameworks it may import."""
    page = (ROOT / "docs" / "how-it-works" / "architecture.md").read_text()
    table = page.split("| folder of hvdlite |")[1].split("## Invariants")[0]
    rows = re.findall(r"^\| (\w+) \| ([\w ]*)\| ([\w ]*)\|", table, re.M)
    return {folder: (set(may.split()), set(frameworks.split())) for folder, may, frameworks in rows}


PYTHON_LAYERS = _python_layers()


# Written down with the table.
UPWARD = {("tensorflow", "keras")}
BASE = {"__init__", "exceptions"}


def _python_folder(path: Path) -> str:
    parts = path.relative_to(ROOT / "hvdlite").with_suffix("").parts
    if len(parts) == 1:
        return "base" if parts[0] in BASE else "core" if parts[0] == "_core" else "hvdlite"
    return "alias" if parts[:2] == ("compat", "path") else parts[0]


def _folder_of(name: str) -> str:
    """Of what is imported: hvdlite, hvdlite.base.knobs, hvdlite.torch.ops, ..."""
    inside = name.split(".")[1:]
    if not inside or inside[0] in BASE | {"__version__", "_core"}:
        return "base"
    return inside[0] if inside[0] in PYTHON_LAYERS else "hvdlite"


def test_the_second_table_names_every_python_folder_and_points_one_way() -> None:
    assert set(PYTHON_LAYERS) == {_python_folder(p) for p in (ROOT / "hvdlite").rglob("*.py")}
    below: set[str] = set()
    for folder, (may, _) in PYTHON_LAYERS.items():
        assert may <= below, f"{folder} may import what lies above it: {sorted(may - below)}"
        below.add(folder)


def test_an_arrow_that_points_up_is_needed() -> None:
    arrows = {
        (_python_folder(path), _folder_of(name))
        for path in (ROOT / "hvdlite").rglob("*.py")
        for name in imported(path)
        if name.startswith("hvdlite.")
    }
    assert arrows >= UPWARD, f"take these off the list: {sorted(UPWARD - arrows)}"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "hvdlite").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_imports_follow_the_second_table(path: Path) -> None:
    folder = _python_folder(path)
    may, frameworks = PYTHON_LAYERS[folder]
    for name in imported(path):
        top = name.split(".")[0]
        assert top not in FRAMEWORKS - frameworks, f"{folder} may not import {name}"
        target = _folder_of(name)
        if top == "hvdlite":
            assert target == folder or target in may or (folder, target) in UPWARD, (
                f"{folder} may not import {name}"
            )
    core = {name for name in imported(path) if name.startswith("hvdlite._core")}
    assert not core or folder in ("core", "job"), f"{path}: through core/engine.py"


# Files that have grown beyond 600 lines. This list may only become shorter.
TOO_LONG: set[str] = set()


def test_files_stay_small() -> None:
    files = [*SOURCES, *(ROOT / "hvdlite").rglob("*.py")]
    long = {str(p.relative_to(ROOT)) for p in files if len(p.read_text().splitlines()) > 600}
    assert long <= TOO_LONG, f"split these: {sorted(long - TOO_LONG)}"
    assert long >= TOO_LONG, f"take these off the list: {sorted(TOO_LONG - long)}"
    assert len((ROOT / "docs" / "how-it-works" / "architecture.md").read_text().splitlines()) <= 260
    assert len((ROOT / "setup.py").read_text().splitlines()) <= 120


@pytest.mark.parametrize("folder", ["csrc", "tests/cpp", "tests/fuzz", "tests/fake_gpu"])
def test_lines_of_cpp_end_by_column_100(folder: str) -> None:
    sources = [p for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cc")]
    long = [
        f"{p}:{i}"
        for p in sources
        for i, line in enumerate(p.read_text().splitlines(), 1)
        if len(line) > 100
    ]
    assert not long, long


def test_no_two_test_files_have_one_name() -> None:
    """Or pytest refuses to run any of them together."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
