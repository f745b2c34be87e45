"""Finds Horovod where another library has it, in Lightning's strategy and Databricks' runner, and
torch-ccl. New versions have none of them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from hvdlite.tools.doctor.findings import Finding, Kind
from hvdlite.tools.doctor.reading import Program, last_name

LIGHTNING = (
    "Lightning has no Horovod since 2.0: import hvdlite.lightning, and give the Trainer "
    "strategy=hvdlite.lightning.HvdliteStrategy() (docs/guides/lightning.md)"
)
_DATABRICKS = (
    "Databricks' runner needs Horovod: hvdlite.spark.run(f, num_proc=np) runs f on the executors, "
    "and hvdlite.run(f, num_proc=2) on the driver (docs/guides/roads.md)"
)
_CCL = (
    "torch-ccl ends with torch 2.8: leave this import out, and say "
    'init_process_group("hvdlite") (docs/guides/roads.md)'
)

_SENTENCES = dict.fromkeys(("HorovodStrategy", "HorovodPlugin", "HorovodAccelerator"), LIGHTNING)
_SENTENCES |= {"HorovodRunner": _DATABRICKS}
_PACKAGES = ("lightning", "pytorch_lightning", "sparkdl")

#: arguments by which a Trainer got "horovod", in the order of Lightning's releases
_OF_TRAINER = {"distributed_backend", "accelerator", "plugins", "strategy"}


def of_program(program: Program) -> Iterator[Finding]:
    """Yields what has to be changed."""
    change = functools.partial(Finding, Kind.CHANGE, program.file)
    imports = [n for n in ast.walk(program.tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    for found in imports:
        for module in {"oneccl_bindings_for_pytorch", "torch_ccl"}.intersection(_modules(found)):
            yield change(found.lineno, module, _CCL)
    if not any(module.startswith(_PACKAGES) for node in imports for module in _modules(node)):
        return
    for node in ast.walk(program.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGES):
            for name in (alias.name for alias in node.names if alias.name in _SENTENCES):
                yield change(node.lineno, f"{node.module}.{name}", _SENTENCES[name])
        elif isinstance(node, ast.Attribute) and node.attr in _SENTENCES:
            yield change(node.lineno, ast.unparse(node), _SENTENCES[node.attr])
        elif isinstance(node, ast.Call) and last_name(node) == "Trainer":
            for keyword in node.keywords:
                if keyword.arg in _OF_TRAINER and _says_horovod(keyword.value):
                    yield change(keyword.lineno, f'Trainer({keyword.arg}="horovod")', LIGHTNING)


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names]


def _says_horovod(value: ast.expr) -> bool:
    """Whether the value may be "horovod": the string, or one side of `x if y else z`."""
    return any(isinstance(n, ast.Constant) and n.value == "horovod" for n in ast.walk(value))
