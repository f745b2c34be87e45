"""A small deliberate fault, and the tests that have to notice it. The lists are the other modules
of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = (
    "comm codecs selecting engine fast_path verdicts transport launch leaving rendezvous torch "
    "torch_backend tensorflow keras jax package pool elastic in_place tune report ray trainers"
).split()
CPP = "C++ "
_FILES = {path.name: str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}


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


def faults(text: str) -> tuple[Mutant, ...]:
    """Reads a list: blocks of lines with an empty line between them.

        W1: a second Ctrl-C does not kill
        hvdlite/launch/watch.py
        - self.ask(politely=False)  # a second request
        + self.ask(politely=True)  # a second request
        test_launcher.py::test_ctrl_c_twice_does_not_wait_for_the_grace_period

    Without a line of `+` the old text is removed. A line `hangs` may follow. A test is named as in
    `Mutant`, without its folder; a long name stands below its file, indented.
    """
    return tuple(_fault(block) for block in text.strip("\n").split("\n\n"))


def _fault(block: str) -> Mutant:
    title, file, *lines = block.replace("::\n  ", "::").split("\n")
    name, _, why = title.partition(": ")
    old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
    others = [line for line in lines if line[0] not in "-+"]
    tests = tuple(_whole(line) for line in others if line != "hangs")
    return Mutant(name, file, old, new, why, tests, "hangs" in others)


def _whole(test: str) -> str:
    """The test's name with its folder."""
    file, found, rest = test.partition("::")
    return f"{_FILES[file]}::{rest}" if found else test


def everything() -> list[Mutant]:
    """All lists, in order."""
    return [mutant for name in LISTS for mutant in import_module(f"mutants.{name}").MUTANTS]
