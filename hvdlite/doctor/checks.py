"""Says what one name, call or variable of a program means with hvdlite."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from hvdlite.compat import names
from hvdlite.doctor import advice, legacy_keras, surface, variables
from hvdlite.doctor.findings import Finding, Kind
from hvdlite.doctor.reading import Call, Program, Use


def of_program(program: Program, uses_tf_keras: bool) -> Iterator[Finding]:
    """Yields all findings that do not need the whole program. `uses_tf_keras`: whether one of the
    program's files chooses it."""
    yield from _uses(program)
    for call in program.calls:
        yield from _call(program.file, call)
    for variable in program.variables:
        yield from variables.about(program.file, variable.line, variable.name)
    for mention in program.mentions:
        sentence = (
            "is in a string: if the program imports a module by it, write hvdlite's name there, "
            "or run `hvdlite compat install`"
        )
        yield Finding(Kind.HINT, program.file, mention.line, mention.path, sentence)
    if any(use.path.startswith(("horovod.keras", "horovod.tensorflow")) for use in program.uses):
        yield from _compiles(program, uses_tf_keras)


def _uses(program: Program) -> Iterator[Finding]:
    """Yields what is missing, for each place, and what works, once."""
    works: dict[str, list[int]] = {}
    optional: tuple[str, ...] = ()  # names that the program can do without
    for use in program.uses:
        found = surface.look_up(use.path)
        if isinstance(found, surface.Missing) and use.path.startswith(optional) and optional:
            continue
        if isinstance(found, surface.Missing):
            if use.guarded and use.is_import:
                optional += (use.path,)
            yield _missing(program.file, use, found)
        elif (otherwise := advice.DIFFERS.get(use.path.rpartition(".")[2])) and not use.is_import:
            yield Finding(Kind.DIFFERS, program.file, use.line, use.path, otherwise)
        else:
            works.setdefault(found.path, []).append(use.line)
    for path, lines in works.items():
        uses = f" ({len(lines)} uses)" if len(lines) > 1 else ""
        yield Finding(Kind.WORKS, program.file, lines[0], path, f"as in Horovod{uses}")


def _missing(file: str, use: Use, missing: surface.Missing) -> Finding:
    name = f"{missing.module}.{missing.name}"
    instead = names.instead(name)
    if missing.name in advice.HOROVOD.get(missing.module, ()) or instead != names.UNKNOWN:
        sentence = f"only Horovod has it: {instead}"
    else:
        close = difflib.get_close_matches(missing.name, surface.public_names(missing.module), 1)
        sentence = f"hvdlite does not have it: {f'is {close[0]} meant?' if close else instead}"
    if use.guarded and use.is_import:
        return Finding(
            Kind.DIFFERS, file, use.line, use.path, f"{sentence}; the ImportError is caught"
        )
    return Finding(Kind.CHANGE, file, use.line, use.path, sentence)


def _call(file: str, call: Call) -> Iterator[Finding]:
    found = surface.look_up(call.path)
    function = call.path.rpartition(".")[2]
    given = [keyword.arg for keyword in call.node.keywords if keyword.arg is not None]
    for name in given:
        if (
            isinstance(found, surface.Found)
            and found.parameters is not None
            and name not in found.parameters
        ):
            sentence = (
                f"{function}() has no argument of this name; it has "
                f"{', '.join(found.parameters) or 'none'}"
            )
            yield Finding(Kind.CHANGE, file, call.line, f"{call.path}({name}=)", sentence)
        elif name in advice.ARGUMENTS and isinstance(found, surface.Found):
            yield Finding(
                Kind.DIFFERS, file, call.line, f"{call.path}({name}=)", advice.ARGUMENTS[name]
            )


def _compiles(program: Program, uses_tf_keras: bool) -> Iterator[Finding]:
    """Yields what Horovod's examples passed to a model's compile()."""
    if uses_tf_keras:
        kind = Kind.WORKS
        sentence = f"tf_keras accepts it, and {legacy_keras.VARIABLE} chooses tf_keras"
    else:
        kind = Kind.CHANGE
        sentence = "Keras 3 has no such argument: leave it out"
    for node in ast.walk(program.tree):
        if isinstance(node, ast.keyword) and node.arg == "experimental_run_tf_function":
            name = "compile(experimental_run_tf_function=)"
            yield Finding(kind, program.file, node.value.lineno, name, sentence)
