"""Finds Horovod where another library offers it under a name of its own: Lightning's strategy and
Databricks' runner. They import Horovod's internals, or exist no more."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hvdlite.tools.doctor.findings import Finding, Kind
from hvdlite.tools.doctor.reading import Program, last_name

LIGHTNING = (
    "Lightning has no Horovod since 2.0: import hvdlite.lightning, and give the Trainer "
    "strategy=hvdlite.lightning.HvdliteStrategy() (docs/guides/lightning.md)"
)
_DATABRICKS = (
    "Databricks' runner needs Horovod: hvdlite.spark.run(f, num_proc=np) runs f on the executors, "
    "and hvdlite.run(f, np=2) on the driver (docs/guides/spark.md)"
)

_SENTENCES = {
    "HorovodStrategy": LIGHTNING,
    "HorovodPlugin": LIGHTNING,
    "HorovodAccelerator": LIGHTNING,
    "HorovodRunner": _DATABRICKS,
}
_PACKAGES = ("lightning", "pytorch_lightning", "sparkdl")

#: arguments by which a Trainer got "horovod", in the order of Lightning's releases
_OF_TRAINER = {"distributed_backend", "accelerator", "plugins", "strategy"}


def of_program(program: Program) -> Iterator[Finding]:
    """Yields what has to be changed."""
    imports = [n for n in ast.walk(program.tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    if not any(module.startswith(_PACKAGES) for node in imports for module in _modules(node)):
        return
    for node in ast.walk(program.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGES):
            for name in (alias.name for alias in node.names if alias.name in _SENTENCES):
                sentence = _SENTENCES[name]
                yield Finding(
                    Kind.CHANGE, program.file, node.lineno, f"{node.module}.{name}", sentence
                )
        elif isinstance(node, ast.Attribute) and node.attr in _SENTENCES:
            sentence = _SENTENCES[node.attr]
            yield Finding(Kind.CHANGE, program.file, node.lineno, ast.unparse(node), sentence)
        elif isinstance(node, ast.Call) and last_name(node) == "Trainer":
            for keyword in node.keywords:
                if keyword.arg in _OF_TRAINER and _says_horovod(keyword.value):
                    name = f'Trainer({keyword.arg}="horovod")'
                    yield Finding(Kind.CHANGE, program.file, keyword.lineno, name, LIGHTNING)


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names]


def _says_horovod(value: ast.expr) -> bool:
    """Whether the value may be "horovod": the string, or one side of `x if y else z`."""
    return any(isinstance(n, ast.Constant) and n.value == "horovod" for n in ast.walk(value))
