"""A small deliberate fault, and the tests that have to notice it. The lists are the other modules
of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = (
    "comm",
    "engine",
    "meetings",
    "verdicts",
    "transport",
    "launch",
    "leaving",
    "rendezvous",
    "torch",
    "torch_backend",
    "tensorflow",
    "keras",
    "jax",
    "package",
    "pool",
    "elastic",
    "tune",
)
CPP = "C++ "


@dataclass(frozen=True)
class Mutant:
    """`old` stands once in `file`, and `new` in its place is the fault.

    A test is `C++ Suite.Name`, `tests/unit/test_x.py::test_y` or, of a battery,
    `tests/conformance/test_x.py::configuration::module.check`.
    """

    id: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]
    hangs: bool = False  # the fault shows by running out of time

    @property
    def is_cpp(self) -> bool:
        return any(test.startswith(CPP) for test in self.tests)

    def applied(self, text: str) -> str:
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.id}: {self.file} has its old text {text.count(self.old)} times instead "
                "of once"
            )
        return text.replace(self.old, self.new)


def everything() -> list[Mutant]:
    """All lists, in order."""
    return [mutant for name in LISTS for mutant in import_module(f"mutants.{name}").MUTANTS]
