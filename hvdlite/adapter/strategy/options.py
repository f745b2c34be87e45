"""What may be chosen in each part of a strategy, and what a program or a file chooses: DECIDES.

The options of a choice, their types and their defaults are the parameters of the function that
stands for it in KNOWN; calling the function checks their values. Errors are ValueErrors that begin
with the path of the key.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from hvdlite.adapter.compression.choices import METHODS, choices
from hvdlite.adapter.local import schedule
from hvdlite.adapter.local.outer import OuterSGD

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, repr=False)
class Choice:
    """A part of a strategy by its name, with all of its options.

    What `compression: {name: dgc, density: 0.01}` says. `defaults`: what the options are that
    were not given."""

    name: str
    options: Options  # all of them, with values that can be hashed
    defaults: Options

    def __getitem__(self, option: str) -> Any:
        return dict(self.options)[option]

    def changed(self) -> dict[str, Any]:
        """The options that are not as by default."""
        defaults = dict(self.defaults)
        return {
            name: value
            for name, value in self.options
            if name not in defaults or value != defaults[name]
        }

    def plain(self) -> dict[str, Any]:
        """With all options, as values that YAML knows."""
        return _named(self.name, dict(self.options))

    def __repr__(self) -> str:
        changed = self.changed()
        return repr(_named(self.name, changed) if changed else self.name)


def _named(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, **{option: _plain(value) for option, value in options.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Choice):
        return value.plain()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


# ---- what may be chosen

Known = Mapping[str, Callable[..., Any]]


def _no_algebra() -> Any:
    raise AssertionError("these compressions only check their options")


#: hvd.Compression of no framework
COMPRESSION: Any = choices(None, "float16", "bfloat16", _no_algebra)  # type: ignore[arg-type]


def _lars(trust: float = 0.001) -> None:
    """hvd.LARS. Its other options are those of the optimizer that it takes the place of."""
    if trust <= 0:
        raise ValueError(f"trust={trust!r} is not possible: it must be above 0")


def _lamb() -> None:
    """hvd.LAMB, likewise."""


def _cast() -> None:
    """hvd.Compression.fp16 or bf16, which have no options."""


#: by part, then by name
KNOWN: Mapping[str, Known] = {
    "compression": {
        "fp16": _cast,
        "bf16": _cast,
        **{name: getattr(COMPRESSION, name) for name in METHODS},
    },
    "local": {"local_sgd": schedule.local_sgd, "diloco": schedule.diloco},
    "large_batch": {"lars": _lars, "lamb": _lamb},
}
#: what a mapping without a name means
UNNAMED = {"local": "local_sgd"}


def called(choice: Choice, function: Callable[..., Any], compression: Any = COMPRESSION) -> Any:
    """function() with the options of the choice. `compression`: the hvd.Compression that has the
    candidates of `auto`."""
    options = choice.changed()
    if options.get("candidates") is not None:
        options["candidates"] = [compressor(each, compression) for each in options["candidates"]]
    return function(**options)


def compressor(choice: Choice, compression: Any = COMPRESSION) -> Any:
    """The compressor of this hvd.Compression that the choice names."""
    found = getattr(compression, choice.name)
    return called(choice, found, compression) if choice.name in METHODS else found


# ---- what a program or a file says, checked against that


def chosen(part: str, given: Any, path: str = "") -> Choice:
    """The choice for a part. `path`: of the key, if it is not the part."""
    path, known = path or part, KNOWN[part]
    name, options = _name_and_options(path, given, known, UNNAMED.get(part))
    check_name(f"{path}: there is no", name, known)
    return _checked(path, name, options, known[name])


def check_name(there_is_no: str, name: Any, known: Iterable[str]) -> None:
    """A ValueError with the nearest known name, and all of them."""
    known = list(known)
    if name not in known:
        near = difflib.get_close_matches(str(name), known, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{there_is_no} {name!r}.{hint} Known: {', '.join(known)}.")


def value_of(path: str, annotation: str, value: Any) -> Any:
    """The value in a form that can be hashed, if it is of the type that a parameter's annotation
    names."""
    if annotation in _DEEPER:
        return _DEEPER[annotation](path, value)
    words, fits = _TYPES[annotation]
    if not fits(value):
        raise ValueError(f"{path}: expected {words}, found {value!r}")
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _name_and_options(
    path: str, given: Any, known: Known, unnamed: str | None
) -> tuple[Any, dict[str, Any]]:
    if isinstance(given, Choice):  # of another strategy
        given = given.plain()
    if isinstance(given, str):
        return given, {}
    if isinstance(given, Mapping):
        options = dict(given)
        name = options.pop("name", unnamed)
        if name is not None:
            return name, options
    some = next(iter(known))
    raise ValueError(
        f"{path}: expected a name such as {some!r}, or a mapping with one such as "
        f"{{'name': {some!r}}}, found {given!r}. A strategy is a description that serves several "
        "optimizers, so it holds no objects"
    )


def _checked(
    path: str, name: str, given: Mapping[str, Any], function: Callable[..., Any]
) -> Choice:
    parameters = inspect.signature(function).parameters
    defaults = {
        name: each.default for name, each in parameters.items() if each.default is not each.empty
    }
    options = {}
    for option, value in given.items():
        check_name(f"{path}: {name} has no option", option, parameters)
        options[option] = value_of(f"{path}.{option}", parameters[option].annotation, value)
    for option in parameters:
        if option not in defaults and option not in options:
            raise ValueError(f"{path}.{option} is missing: {name} needs it")
    everything = tuple((option, {**defaults, **options}[option]) for option in parameters)
    choice = Choice(name, everything, tuple(defaults.items()))
    try:
        called(choice, function)
    except ValueError as error:  # which begins with the option, most often
        option = str(error).partition("=")[0]
        raise ValueError(f"{path}{f'.{option}' if option in parameters else ''}: {error}") from None
    return choice


# ---- types


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, (list, tuple)) and all(map(_is_text, value)))


#: by annotation: in words, and what fits
_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "float": ("a number", _is_number),
    "float | None": ("a number, or nothing", lambda value: value is None or _is_number(value)),
    "int": ("a whole number", _is_whole),
    "int | str": ("a whole number, or a time such as '10s'",
                  lambda value: _is_whole(value) or _is_text(value)),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "str": ("a text", _is_text),
    "str | Sequence[str]": ("a pattern of names, or a list of them", _are_texts),
}  # fmt: skip


def _candidates(path: str, value: Any) -> tuple[Choice, ...] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{path}: expected a list of compressions, found {value!r}")
    return tuple(chosen("compression", each, f"{path}[{i}]") for i, each in enumerate(value))


def _outer(path: str, value: Any) -> OuterSGD:
    if isinstance(value, OuterSGD):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{path}: expected the options of hvd.OuterSGD, such as {{lr: 0.7}}, found {value!r}. "
            "For another outer optimizer call hvd.DiLoCo()"
        )
    known = {field.name: str(field.type) for field in fields(OuterSGD)}
    for option in value:
        check_name(f"{path}: OuterSGD has no option", option, known)
    return OuterSGD(**{k: value_of(f"{path}.{k}", known[k], v) for k, v in value.items()})


#: annotations of options that have options
_DEEPER: dict[str, Callable[[str, Any], Any]] = {
    "Sequence[Method | Cast] | None": _candidates,
    "Outer": _outer,
}
