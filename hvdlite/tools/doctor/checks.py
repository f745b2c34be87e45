"""Says what one name, call or variable of a program means with hvdlite."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from hvdlite.compat import names
from hvdlite.tools.doctor import advice, libraries, surface, variables
from hvdlite.tools.doctor.findings import Finding, Kind
from hvdlite.tools.doctor.reading import HorovodCall, Program, Use


def of_program(program: Program, uses_tf_keras: bool) -> Iterator[Finding]:
    """Yields all findings that do not need the whole program. `uses_tf_keras`: whether one of the
    program's files chooses it."""
    yield from _uses(program)
    for call in program.calls:
        yield from _call(program, call)
    for variable in program.variables:
        yield from variables.about(program.file, variable.line, variable.name)
    for mention in program.mentions:
        if mention.begins or _has(mention.path):
            what = "begins a module's name" if mention.begins else "is in a string"
            sentence = (
                f"{what}: if the program imports a module by it, write hvdlite's name there, or "
                "run `hvdlite compat install`"
            )
            yield Finding(Kind.HINT, program.file, mention.line, mention.path, sentence)
    yield from libraries.of_program(program)
    if any(use.path.startswith(("horovod.keras", "horovod.tensorflow")) for use in program.uses):
        yield from _compiles(program, uses_tf_keras)


def _uses(program: Program) -> Iterator[Finding]:
    """Yields what is missing, for each place, and what works, once."""
    works: dict[str, list[int]] = {}
    optional: tuple[str, ...] = ()  # names that the program can do without
    for use in program.uses:
        found = surface.look_up(use.path)
        if isinstance(found, surface.MissingName) and use.path.startswith(optional) and optional:
            continue
        if isinstance(found, surface.MissingName):
            if use.guarded and use.is_import:
                optional += (use.path,)
            yield _missing(program, use, found)
        elif (otherwise := advice.DIFFERS.get(use.path.rpartition(".")[2])) and not use.is_import:
            yield Finding(
                Kind.DIFFERS, program.file, use.line, _in_words_of(program, use.path), otherwise
            )
        else:
            works.setdefault(found.path, []).append(use.line)
    works_as = "is in hvdlite" if program.is_hvdlites else "as in Horovod"
    for path, lines in works.items():
        uses = f" ({len(lines)} uses)" if len(lines) > 1 else ""
        name = _in_words_of(program, path)
        yield Finding(Kind.WORKS, program.file, lines[0], name, f"{works_as}{uses}")


def _in_words_of(program: Program, path: str) -> str:
    """Returns the name by hvdlite's package for a program that imports nothing of Horovod's."""
    return path.replace("horovod", "hvdlite", 1) if program.is_hvdlites else path


def _has(path: str) -> bool:
    """Whether Horovod or hvdlite has the name."""
    found = surface.look_up(path)
    return isinstance(found, surface.KnownName) or _is_horovods(found)


def _is_horovods(missing: surface.MissingName) -> bool:
    """Whether Horovod has the name that hvdlite does not have."""
    return (
        missing.name in advice.HOROVOD.get(missing.module, ())
        or names.instead(f"{missing.module}.{missing.name}") != names.UNKNOWN
    )


def _missing(program: Program, use: Use, missing: surface.MissingName) -> Finding:
    file, path = program.file, _in_words_of(program, use.path)
    instead = names.instead(f"{missing.module}.{missing.name}")
    if _is_horovods(missing):
        sentence = f"only Horovod has it: {instead}"
    else:
        close = difflib.get_close_matches(missing.name, surface.public_names(missing.module), 1)
        if program.is_hvdlites:
            instead = "docs/reference/api lists what there is"
        sentence = f"hvdlite does not have it: {f'is {close[0]} meant?' if close else instead}"
    if use.guarded and use.is_import:
        return Finding(Kind.DIFFERS, file, use.line, path, f"{sentence}; the ImportError is caught")
    return Finding(Kind.CHANGE, file, use.line, path, sentence)


def _call(program: Program, call: HorovodCall) -> Iterator[Finding]:
    file, path = program.file, _in_words_of(program, call.path)
    found = surface.look_up(call.path)
    function = call.path.rpartition(".")[2]
    given = [keyword.arg for keyword in call.node.keywords if keyword.arg is not None]
    for name in given:
        if (
            isinstance(found, surface.KnownName)
            and found.parameters is not None
            and name not in found.parameters
        ):
            sentence = (
                f"{function}() has no argument of this name; it has "
                f"{', '.join(found.parameters) or 'none'}"
            )
            yield Finding(Kind.CHANGE, file, call.line, f"{path}({name}=)", sentence)
        elif name in advice.ARGUMENTS and isinstance(found, surface.KnownName):
            yield Finding(Kind.DIFFERS, file, call.line, f"{path}({name}=)", advice.ARGUMENTS[name])


def _compiles(program: Program, uses_tf_keras: bool) -> Iterator[Finding]:
    """Yields what Horovod's examples passed to a model's compile()."""
    if uses_tf_keras:
        kind = Kind.WORKS
        sentence = f"tf_keras accepts it, and {variables.LEGACY_KERAS} chooses tf_keras"
    else:
        kind = Kind.CHANGE
        sentence = "Keras 3 has no such argument: leave it out"
    for node in ast.walk(program.tree):
        if isinstance(node, ast.keyword) and node.arg == "experimental_run_tf_function":
            name = "compile(experimental_run_tf_function=)"
            yield Finding(kind, program.file, node.value.lineno, name, sentence)
