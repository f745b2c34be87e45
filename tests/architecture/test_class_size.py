"""No class has more than 40 methods or 20 data members: a file of at most 600 lines may still be a
part of a huge class."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
METHODS, MEMBERS = 40, 20

#: class -> why it may be larger. This list may only become shorter.
LARGER: dict[str, str] = {}


def cpp_classes(text: str) -> dict[str, tuple[int, int]]:
    """Class -> its methods and its data members, of a header."""
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"//[^\n]*|/\*.*?\*/|^\s*#[^\n]*(\\\n[^\n]*)*", "", text, flags=re.S | re.M)
    found = {}
    for match in re.finditer(
        r"\b(?:class|struct)\s+(?:[A-Z_]+(?:\([^)]*\))?\s+)?(\w+)[^;{()]*\{", text
    ):
        end, depth, statement = match.end(), 1, ""
        methods = members = 0
        while depth:
            letter = text[end]
            end += 1
            closes = letter == "}" and depth == 2
            depth += (letter == "{") - (letter == "}")
            if depth == 1 and not closes:
                statement += letter
            elif closes:
                statement += "{}"
            if not (depth == 1 and (letter == ";" or (closes and _is_function(statement)))):
                continue
            said = re.sub(r"\b(public|private|protected)\s*:", "", statement).strip(" \n;")
            statement = ""
            if not said or re.match(
                r"(using|friend|class|struct|enum|typedef|static constexpr|template.*\bclass\b)\b",
                said,
            ):
                continue
            if _is_function(said):
                methods += 1
            else:
                members += 1
        found[match[1]] = (methods, members)
    return found


def _is_function(statement: str) -> bool:
    """Whether a declaration has a list of parameters, and not only a type or an attribute with
    one."""
    plain = re.sub(r"\b(GUARDED_BY|alignas)\s*\([^)]*\)", "", statement)
    while re.search(r"<[^<>]*>", plain):
        plain = re.sub(r"<[^<>]*>", "", plain)
    return "(" in plain.split("=")[0].split("{")[0] or "operator" in plain


def python_classes(text: str) -> dict[str, tuple[int, int]]:
    found = {}
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef):
            continue
        methods = [f for f in node.body if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))]
        kept = {
            target.attr
            for method in methods
            for each in ast.walk(method)
            for target in getattr(each, "targets", [getattr(each, "target", None)])
            if isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id == "self"
        }
        fields = {
            f.target.id
            for f in node.body
            if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name)
        }
        found[node.name] = (len(methods), len(kept | fields))
    return found


def test_classes_stay_small() -> None:
    large = {}
    for path in sorted([*(ROOT / "csrc").rglob("*.h"), *(ROOT / "hvdlite").rglob("*.py")]):
        parse = cpp_classes if path.suffix == ".h" else python_classes
        for name, (methods, members) in parse(path.read_text()).items():
            if methods > METHODS or members > MEMBERS:
                large[f"{path.relative_to(ROOT)}:{name}"] = f"{methods} methods, {members} members"
    assert large.keys() <= LARGER.keys(), f"split these: {large}"
    assert large.keys() >= LARGER.keys(), f"take these off the list: {LARGER.keys() - large.keys()}"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (
            "class A { public: A(int x) : x_(x) {} int f() const; private: int x_ GUARDED_BY(m_) = "
            "0; };",
            (2, 1),
        ),
        (
            "struct A { std::function<void()> done; std::map<int, int> m = {{1, f()}}; enum E { kA "
            "}; };",
            (0, 2),
        ),
        (
            'class CAPABILITY("turn") A final : private B { void f() { if (x) { g(); } } struct C '
            "{ int a; }; C c; };",
            (1, 1),
        ),
        (
            "struct A { std::atomic<int> a{0}; static constexpr int k = 3; bool operator<(const "
            "A&) const; };",
            (1, 1),
        ),
    ],
)
def test_the_members_of_a_cpp_class_are_counted(text: str, size: tuple[int, int]) -> None:
    assert cpp_classes(text)["A"] == size


def test_the_members_of_a_python_class_are_counted() -> None:
    text = (
        "class A:\n    y: int\n    def __init__(self):\n        self.x = 1\n    def f(self):\n     "
        "   self.z: int = 2\n"
    )
    assert python_classes(text)["A"] == (2, 3)
