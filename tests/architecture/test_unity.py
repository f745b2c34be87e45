"""Several C++ files are compiled as one. So a name that two of them give to something of their own,
in the anonymous namespace of the same namespace, may be defined twice, now or once files are added.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

OWN = re.compile(r"^namespace \{\n(.*?)^\}  // namespace$", re.M | re.S)
# types, other names of types, constants, and functions with their parameters
DEFINITION = re.compile(
    r"^(?:(?:struct|class|enum class) (\w+)[^;(\n]*(?:\{.*|$)"
    r"|using (\w+) = (.*)"
    r"|(?:constexpr|const) [^=({\n]*?\b(k\w+)\b.*"
    r"|\w[\w:<>,*& ]*? [*&]?(\w+\([^()]*\))[^;]*\{.*)$",
    re.M,
)


def definitions(text: str) -> Iterator[tuple[str, str]]:
    """Names in anonymous namespaces; for another name of a type, that type as well."""
    for own in OWN.finditer(text):
        for found in DEFINITION.finditer(own[1]):
            kind, alias, target, constant, function = found.groups()
            yield kind or alias or constant or " ".join(function.split()), target or ""


def namespace(text: str) -> str:
    return "::".join(re.findall(r"^namespace ([\w:]+) \{", text, re.M))


def twice(folder: str) -> list[str]:
    files: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for path in sorted((ROOT / folder).rglob("*.cc")):
        text = path.read_text()
        for name, target in definitions(text):
            files[namespace(text), name][str(path.relative_to(ROOT))] = target
    return [
        f"{name} of {outer}: {', '.join(where)}"
        for (outer, name), where in files.items()
        if len(where) > 1 and (len(set(where.values())) > 1 or "" in where.values())
    ]


def test_a_name_is_defined_once() -> None:
    assert twice("csrc") + twice("tests/cpp") == []


def test_all_kinds_of_definitions_are_found() -> None:
    text = """namespace a::b {
namespace {
constexpr size_t kGuard = 48;
const Kind kWorlds[] = {
struct Case {
class Echo final : public Communicator {
struct Later;
using Floats = std::vector<float>;
void Function(int a,
              float b) {
}
}  // namespace
}  // namespace a::b
"""
    assert namespace(text) == "a::b"
    assert list(definitions(text)) == [
        ("kGuard", ""),
        ("kWorlds", ""),
        ("Case", ""),
        ("Echo", ""),
        ("Floats", "std::vector<float>;"),
        ("Function(int a, float b)", ""),
    ]
